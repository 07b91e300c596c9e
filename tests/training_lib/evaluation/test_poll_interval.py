"""How often a run is looked at."""

from __future__ import annotations

import pytest

from trackside.evaluation.poll_interval import PollInterval


def looks(step_seconds: float, *, steps: int, shortest: float = 1.0, longest: float = 10.0) -> tuple[int, float]:
    """How many looks a run of equal steps takes, and the longest time that a step goes unnoticed."""
    interval, now, count, noticed, late = (
        PollInterval(shortest_seconds=shortest, longest_seconds=longest, now=0.0),
        0.0,
        0,
        0,
        0.0,
    )
    while noticed < steps:
        now += interval.pause_seconds(now)
        count += 1
        there = int(now // step_seconds)
        if there > noticed:
            late = max(late, now - (noticed + 1) * step_seconds)
            noticed = there
            interval.note_new_steps(now)
    return count, late


@pytest.mark.parametrize(
    ("step_seconds", "most_looks_a_step", "most_late"),
    [
        pytest.param(0.01, 1 / 99, 1.0, id="quick"),
        pytest.param(1.0, 1.0, 1.0, id="a-second"),
        pytest.param(12.0, 13.0, 1.2, id="twelve-seconds"),
        pytest.param(60.0, 13.0, 5.5, id="a-minute"),
        pytest.param(600.0, 62.0, 10.0, id="ten-minutes"),
    ],
)
def test_looks_follow_the_pace_of_the_steps(step_seconds: float, most_looks_a_step: float, most_late: float) -> None:
    count, late = looks(step_seconds, steps=100_000 if step_seconds < 1 else 100)
    made = 100_000 if step_seconds < 1 else 100
    assert count <= made * most_looks_a_step + 12
    assert late <= most_late


def test_an_hour_of_silence_is_asked_every_ten_seconds() -> None:
    interval, now, count = PollInterval(shortest_seconds=1.0, longest_seconds=10.0, now=0.0), 0.0, 0
    while now < 3600:
        now += interval.pause_seconds(now)
        count += 1
    assert count < 400


def test_after_a_pause_the_first_quick_steps_are_seen_at_the_old_pace_once() -> None:
    interval = PollInterval(shortest_seconds=1.0, longest_seconds=10.0, now=0.0)
    interval.note_new_steps(1.0)
    interval.note_new_steps(300.0)  # after an evaluation of five minutes
    assert interval.pause_seconds(300.0) == 10.0
    interval.note_new_steps(310.0)
    assert interval.pause_seconds(310.0) == 1.0


@pytest.mark.parametrize("silence", [0.0, 5.0, 5000.0])
def test_a_run_in_a_folder_is_always_looked_at_alike(silence: float) -> None:
    assert PollInterval(shortest_seconds=0.5, longest_seconds=0.5, now=0.0).pause_seconds(silence) == 0.5


def test_looks_are_quicker_for_a_while_after_an_issue() -> None:
    interval = PollInterval(shortest_seconds=1.0, longest_seconds=10.0, now=0.0)
    interval.note_issue(100.0)
    assert interval.pause_seconds(109.9) == 0.25
    assert interval.pause_seconds(110.0) > 1.0
