"""Irregular places: one of each so many steps, and none of a program's turns is left out."""

from __future__ import annotations

import itertools

import pytest

from trackside.capture.ground.irregular import fraction, is_place, next_place

STEPS = 4000


@pytest.mark.parametrize("interval", [1, 2, 4, 8, 10, 64, 320])
def test_one_of_each_interval(interval: int) -> None:
    places = [step for step in range(STEPS) if is_place(step, interval)]
    assert [place // interval for place in places] == [*range(-(-STEPS // interval))][: len(places)]
    assert len(places) >= STEPS // interval
    assert [next_place(before, interval) for before in places[:-1]] == places[1:]


@pytest.mark.parametrize("interval", [2, 4, 8, 10, 64])
@pytest.mark.parametrize("period", [2, 3, 4, 5, 8])
def test_each_turn_of_a_program_is_met_about_as_often(interval: int, period: int) -> None:
    turns = [step % period for step in range(STEPS) if is_place(step, interval)]
    met = [turns.count(turn) / len(turns) * period for turn in range(period)]
    assert min(met) > 0.6, "a constant stride of 8 would meet one of four turns only"


def test_fractions_never_repeat() -> None:
    some = [fraction(turn) for turn in range(200)]
    assert all(0 <= one < 1 for one in some)
    ordered = sorted(some)
    assert max(b - a for a, b in itertools.pairwise(ordered)) < 3 / len(some)
