"""Rests of the watch: which steps are neighbours, how many lie between, and which stand for the run evenly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.run.recorded_names import RESTED_STEPS
from trackside.testing.fake_trial import WALL_TIME, fake_trial
from trackside.trial.rests import NO_RESTS, Rests
from trackside.trial.window import Window


def rests(**counts: int) -> Rests:
    """Return rests by the first step after each: `rests(at_20=10)`."""
    return Rests(np.array([int(name[3:]) for name in counts]), np.array([*counts.values()]))


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        pytest.param(0, 9, 0, id="before the first rest"),
        pytest.param(9, 20, 10, id="over a rest"),
        pytest.param(20, 24, 0, id="within a burst"),
        pytest.param(9, 40, 17, id="over both"),
        pytest.param(21, 40, 7, id="from within a burst"),
    ],
)
def test_steps_at_rest_between_two_steps(first: int, last: int, expected: int) -> None:
    assert rests(at_20=10, at_31=7).between(first, last) == expected


def test_places_count_steps_at_rest() -> None:
    assert rests(at_20=10, at_31=7).places(np.array([8, 9, 20, 21, 31])).tolist() == [0, 1, 12, 13, 21]
    assert NO_RESTS.places(np.array([3, 5, 9])).tolist() == [0, 1, 2]


@given(st.integers(0, 60), st.lists(st.tuples(st.integers(1, 50), st.integers(1, 6)), max_size=20))
def test_no_part_of_a_run_stands_for_more_than_another(dense: int, bursts: list[tuple[int, int]]) -> None:
    steps, after, counts, step = list(range(dense)), list[int](), list[int](), dense
    for rest, burst in bursts:
        step += rest
        after.append(step)
        counts.append(rest)
        steps += range(step, step + burst)
        step += burst
    found = Rests(np.array(after, np.int64), np.array(counts, np.int64))
    kept = np.array(steps, np.int64)[found.evenly(np.array(steps, np.int64))]
    if not bursts or not dense:
        assert bursts or len(kept) == dense
        return
    assert kept.size
    assert kept[-1] == steps[-1]
    length = max(counts) + 1
    _, sizes = np.unique((kept[-1] - kept) // length, return_counts=True)
    assert sizes.max() <= max(burst for _, burst in bursts)


def window(counts: dict[int, float], *, worker: str = "worker_0", step: int = 60) -> Window:
    trial = fake_trial({"Loss_output_0": {0: 1.0, step: 1.0}, RESTED_STEPS: counts} if counts else {"a": {step: 1.0}})
    return trial.window(step, now=WALL_TIME)


@pytest.mark.parametrize(
    ("counts", "since", "expected"),
    [
        pytest.param({}, 40, 20, id="a run without rests: all steps"),
        pytest.param({50: 9.0}, 40, 11, id="those at rest were not seen"),
        pytest.param({30: 9.0}, 40, 20, id="an earlier rest does not matter"),
        pytest.param({50: 9.0, 60: 6.0}, 40, 5, id="the rest that ends at this step, too"),
    ],
)
def test_a_window_counts_watched_steps(counts: dict[int, float], since: int, expected: int) -> None:
    assert window(counts).watched_since(since) == expected


def test_a_window_reads_the_rests_of_a_worker() -> None:
    found = window({50: 9.0})
    assert found.rests("worker_0").between(40, 60) == 9
    assert found.rests("worker_7") is NO_RESTS
