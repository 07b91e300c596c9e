"""What changed at some steps: faults that are planted are named first, and noise is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training_lib.views.report.recorded import recorded_trial
from trackside.views.report.changes import Changes, changes
from trackside.views.report.changes_section import changes_section

STEPS, WINDOW = 1000, (700, 799)
OTHERS = [f"gradient/Net_layer.{number}.weight" for number in range(20)]
FAULTY = "gradient/Net_faulty.weight"


def noise(seed: int) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(0, 0.3, STEPS))


def found_in(faulty: np.ndarray, *, window: tuple[int, int] = WINDOW) -> Changes | None:
    numbers = {name: {"l2": dict(enumerate(noise(seed).tolist()))} for seed, name in enumerate(OTHERS)}
    numbers[FAULTY] = {"l2": dict(enumerate(faulty.tolist()))}
    return changes(recorded_trial(numbers), window)


def jump(step: int, factor: float, *, length: int = STEPS) -> np.ndarray:
    values = noise(99)
    values[step : step + length] *= factor
    return values


@pytest.mark.parametrize(
    ("faulty", "first"),
    [
        pytest.param(jump(740, 30.0), range(725, 741), id="a jump up"),
        pytest.param(jump(740, 0.01), range(725, 741), id="a jump down"),
        pytest.param(jump(760, 60.0, length=1), range(750, 761), id="one step of a thousand"),
        pytest.param(jump(712, math.nan, length=1), range(700, 713), id="one number that is none"),
        pytest.param(jump(700, math.inf), range(700, 701), id="no finite number from the first step of the window on"),
    ],
)
def test_a_planted_change_is_named_first_with_its_step(faulty: np.ndarray, first: range) -> None:
    found = found_in(faulty)
    assert found is not None
    assert found.found[0].name == FAULTY
    assert found.found[0].first_step in first
    assert found.compared == len(OTHERS) + 1
    assert FAULTY in changes_section(found, lambda name, step: f"/{name}/{step}")


def test_what_happened_before_the_window_is_not_its_change() -> None:
    found = found_in(jump(300, 30.0))
    assert found is not None
    assert found.found == ()
    assert found.baseline == (284, 699)


@settings(max_examples=20, deadline=None, derandomize=True)  # a search for ever worse noise finds some
@given(seed=st.integers(0, 10**6), first=st.integers(500, 800), length=st.integers(40, 100))
def test_noise_is_seldom_a_change(seed: int, first: int, length: int) -> None:
    random = np.random.default_rng(seed)
    numbers = {
        f"t{place}": {"l2": dict(enumerate(np.exp(random.normal(0, 0.3, STEPS)).tolist()))} for place in range(20)
    }
    found = changes(recorded_trial(numbers), (first, first + length - 1))
    assert found is not None
    assert len(found.found) <= 4, "of twenty, in the worst of many"


def test_the_beginning_of_a_run_has_nothing_before_it() -> None:
    assert found_in(noise(99), window=(10, 99)) is None
    assert "too near the start" in changes_section(None, lambda name, step: "")
