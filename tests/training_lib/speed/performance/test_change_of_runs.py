"""The change of a number between runs: its interval, neighbours in time, and which runs stand for a side."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trackside.speed.performance.change_of_runs import SURE, change_of, turns_of

KNOWN = 0.015


@pytest.mark.parametrize(
    ("before", "after", "is_sure"),
    [
        pytest.param([0, 0.01, 0.02, 0, 0.01], [0, 0.02, 0.01, 0.01, 0], False, id="the-same"),
        pytest.param([0, 0.01, 0.02, 0, 0.01], [0.08, 0.1, 0.09, 0.08, 0.08], True, id="slower"),
        pytest.param([0, 0.01, 0.5, 0, 0.01], [0.08, 0.1, 0.09, 0.08, 0.08], False, id="ranks-of-five-allow-little"),
        pytest.param([0, 0.01, 0, 0, 0.01], [0.08, 0.4, 0.09, 0.9, 0.08], True, id="some-of-the-later-far-off"),
        pytest.param([0, 0.01, 0, 0, 0.01, 0, 0.3, 0.01], [0.08] * 7 + [0.5], True, id="one-far-off-of-eight"),
        pytest.param([0, 0, 0, 0.13, 0.13], [0.13] * 5, False, id="two-paces"),
        pytest.param([0.08, 0.09, 0.08], [0, 0.01, 0], False, id="quicker"),
        pytest.param([0, 0.3, 0.6, 0.9], [0.1, 0.4, 0.7, 1.0], False, id="far-apart-and-not-in-turns"),
    ],
)
def test_sure_changes(before: list[float], after: list[float], is_sure: bool) -> None:
    assert change_of(np.array(before), np.array(after), known=KNOWN).is_sure is is_sure


def test_neighbours_see_a_change_while_the_pace_drifts() -> None:
    pace = np.array([0, 0.3, 0.6, 0.9, 1.2])
    turns = [(k, k) for k in range(5)]
    assert not change_of(pace, pace + 0.08, known=KNOWN).is_sure
    found = change_of(pace, pace + 0.08, known=KNOWN, turns=turns)
    assert found.is_sure
    assert found.change == pytest.approx(math.expm1(0.08))
    assert not change_of(pace, pace, known=KNOWN, turns=turns).is_sure


def test_runs_are_chosen_by_their_pace() -> None:
    numbers, paces = np.array([0.0, -9.0, 0.0]), np.array([0.0, 5.0, 0.1])
    assert change_of(numbers, numbers, known=KNOWN, paces=(paces, paces)).change == 0
    assert change_of(numbers, numbers + 0.1, known=KNOWN, paces=(paces, paces)).is_sure


@pytest.mark.parametrize(
    ("before", "after", "turns"),
    [
        pytest.param([0, 3, 4], [1, 2, 5], [(0, 0), (1, 1), (2, 2)], id="A-B-B-A-A-B"),
        pytest.param([4, 0, 2], [3, 5, 1], [(1, 2), (2, 0), (0, 1)], id="named-in-another-order"),
        pytest.param([0, 1, 2], [3, 4, 5], [], id="one-after-the-other"),
        pytest.param([0, 2], [1], [], id="of-different-number"),
        pytest.param([0, math.nan], [1, 3], [], id="unknown-starts"),
    ],
)
def test_turns(before: list[float], after: list[float], turns: list[tuple[int, int]]) -> None:
    assert turns_of(before, after) == turns


NOISES = {
    "normal": lambda draw, shape: draw.normal(0, 1, shape),
    "exponential": lambda draw, shape: draw.exponential(1, shape),
    "some-far-off": lambda draw, shape: (
        draw.normal(0, 0.1, shape) + (draw.random(shape) < 0.2) * draw.exponential(2, shape)
    ),
    "two-paces": lambda draw, shape: draw.choice([0.0, 1.0], shape) + draw.normal(0, 0.03, shape),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("deviation", [0.015, 0.05, 0.3])
@pytest.mark.parametrize("runs", [4, 5, 8])
def test_equal_runs_are_hardly_ever_apart(noise: str, deviation: float, runs: int) -> None:
    draw = np.random.default_rng(runs)
    turns = [(k, k) for k in range(runs)]
    alarms = 0
    for _ in range(500):
        before, after = deviation * NOISES[noise](draw, (2, runs))
        found = change_of(before, after, known=KNOWN, turns=turns)
        alarms += found.is_sure and found.change > 0.05
    assert alarms <= 12, "about 1 of 100 is meant"


def test_the_quantiles_are_student_s() -> None:
    stats = pytest.importorskip("scipy.stats")
    exact = [stats.t.ppf(0.995, df) for df in range(1, len(SURE) + 1)]
    assert list(SURE) == pytest.approx(exact, abs=6e-4)
