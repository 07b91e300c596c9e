"""Steps in memory: bounded, and spread evenly over the training."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.kept_steps import KeptSteps, Targets

BYTES = 80


def step(number: int, *, value: float = 0.0) -> StepTensors:
    return StepTensors(number, "TRAIN", number, 1.0, (("a", np.full(10, value)),))


def test_keeps_everything_within_the_bound() -> None:
    kept = KeptSteps(most_bytes=5 * BYTES)
    for number in range(5):
        kept.save(step(number, value=number))
    assert {number: array[0] for number, array in kept.tensors()["a"].items()} == {n: n for n in range(5)}
    assert not kept.tensors()["a"][0].flags.writeable


@given(count=st.integers(1, 300), room=st.integers(1, 20))
def test_spans_the_training_evenly(count: int, room: int) -> None:
    strides: list[int] = []
    kept = KeptSteps(most_bytes=room * BYTES, thinned=strides.append)
    for number in range(count):
        kept.save(step(number))
    steps = list(kept.tensors()["a"])
    assert (steps[0], steps[-1]) == (0, count - 1)
    assert len(steps) <= room + 1
    regular = [number for number in steps if number % kept.stride == 0]
    assert regular == list(range(0, count, kept.stride))
    assert len(steps) - len(regular) <= 1
    assert strides == sorted(set(strides))
    assert count <= room or len(steps) > room // 2


def test_a_target_that_fails_does_not_keep_a_step_from_the_others() -> None:
    class Failing:
        def save(self, step: StepTensors) -> None:
            raise OSError("full")

        def lost(self, step: int, why: str) -> None: ...

        def finish(self, *, is_interrupted: bool) -> None: ...

    kept = KeptSteps()
    targets = Targets([Failing(), kept])
    with pytest.raises(OSError, match="full"):
        targets.save(step(0))
    assert list(kept.tensors()["a"]) == [0]
