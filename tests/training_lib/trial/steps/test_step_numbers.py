"""Numbers of training steps, packed, are those of a plain dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trackside.trial.steps.step_numbers import StepNumbers


@given(
    rows=st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0, 1, 1, 1, 2])), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    first=st.integers(0, 3),
)
def test_each_step_has_the_number_that_a_dictionary_gives(
    rows: list[tuple[int, int]], cuts: list[int], first: int
) -> None:
    """A step lies 1 to 4 after the one before, and a number 0 to 2, which come in pieces."""
    steps = first + np.cumsum(np.array([row[0] for row in rows], np.int64))
    numbers = np.cumsum(np.array([row[1] for row in rows], np.int64))
    packed = StepNumbers()
    for some in np.split(np.arange(len(rows)), sorted(cuts)):
        packed.add(steps[some], numbers[some])
    known = dict(zip(steps.tolist(), numbers.tolist(), strict=True))
    asked = np.arange(int(steps[-1]) + 5 if len(steps) else 5)
    expected = []
    for step in asked.tolist():
        before = [one for one in known if one <= step]
        expected.append(known[max(before)] if before else step)
    assert packed.of(asked).tolist() == expected
    assert [step in packed for step in asked.tolist()] == [step in known for step in asked.tolist()]
    assert bool(packed) == bool(known)


def test_a_million_training_steps_take_no_room() -> None:
    packed = StepNumbers()
    for first in range(0, 1_000_000, 10_000):
        steps = np.arange(first, first + 10_000)
        packed.add(steps, steps)
    assert sum(part.nbytes for part in packed._parts) == 24
    asked = np.array([0, 77, 999_999])
    assert packed.of(asked) is asked
    assert packed.of(np.array([2_000_000])).tolist() == [999_999]
