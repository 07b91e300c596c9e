"""How long one way of speaking waits for the other, and for a silent worker."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trackside.trial.settled_steps import (
    WAIT_SECONDS,
    WORKER_WAIT_SECONDS,
    RecordingWorkers,
    SettledSteps,
    Way,
    usual_gap,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("saved", "recorded", "expected"),
    [
        pytest.param((20, 30), (-1, None), 20, id="nothing-recorded"),
        pytest.param((-1, None), (7, 8), 7, id="nothing-saved-and-nothing-expected"),
        pytest.param((20, 30), (25, 26), 25, id="between-two-saves"),
        pytest.param((20, 30), (20, 21), 20, id="equally-far"),
        pytest.param((20, 30), (15, 16), 15, id="rows-lag"),
        pytest.param((20, 30), (33, 34), 29, id="a-save-lags"),
        pytest.param((20, 21), (33, 34), 20, id="a-worker-saves-late"),
        pytest.param((130, 140), (100, 200), 130, id="rows-are-rare"),
        pytest.param((500, None), (33, 34), 33, id="saved-once"),
        pytest.param((-1, 0), (33, 34), -1, id="the-first-save-lags"),
    ],
)
def test_who_is_ahead_waits_for_what_is_expected(
    saved: tuple[int, int | None], recorded: tuple[int, int | None], expected: int
) -> None:
    clock = Clock()
    settled = SettledSteps(clock)
    ways = (Way("saved", *saved), Way("recorded", *recorded))
    assert settled.through(ways, has_ended=False) == expected
    clock.now += WAIT_SECONDS - 1
    assert settled.through(ways, has_ended=False) == expected
    clock.now += 1
    assert settled.through(ways, has_ended=False) == max(saved[0], recorded[0])
    assert SettledSteps(clock).through(ways, has_ended=True) == max(saved[0], recorded[0])


def test_it_waits_anew_for_each_step_and_never_goes_back() -> None:
    clock = Clock()
    settled = SettledSteps(clock)

    def through(saved: tuple[int, int], recorded: tuple[int, int]) -> int:
        return settled.through((Way("saved", *saved), Way("recorded", *recorded)), has_ended=False)

    assert through((20, 30), (33, 34)) == 29
    clock.now += WAIT_SECONDS
    assert through((20, 30), (35, 36)) == 35
    assert through((20, 30), (60, 61)) == 60  # it is no longer waited for
    assert through((30, 40), (60, 61)) == 60  # and what comes then comes too late
    assert through((70, 80), (65, 66)) == 65
    clock.now += WAIT_SECONDS / 2
    assert through((70, 80), (68, 69)) == 68  # moving is no reason to lose patience
    clock.now += WAIT_SECONDS / 2
    assert through((70, 80), (69, 70)) == 69


def test_rows_are_whole_once_every_worker_has_them() -> None:
    clock = Clock()
    workers = RecordingWorkers(clock)
    assert workers.through({}, count=2, has_ended=False) == -1
    assert workers.through({"a": 5}, count=2, has_ended=False) == -1  # the other may come yet
    assert workers.through({"a": 9, "b": 3}, count=2, has_ended=False) == 3
    assert workers.through({"a": 9, "b": 12}, count=2, has_ended=False) == 9
    assert workers.through({"a": 9, "b": 12}, count=2, has_ended=True) == 12


@pytest.mark.parametrize(
    ("last", "count"),
    [
        pytest.param({"a": 50}, 2, id="never-came"),
        pytest.param({"a": 50, "b": 3}, 2, id="fell-silent"),
        pytest.param({"a": 50, "b": 3}, None, id="nobody-knows-how-many"),
    ],
)
def test_a_silent_worker_is_waited_for_and_then_no_more(last: dict[str, int], count: int | None) -> None:
    clock = Clock()
    workers = RecordingWorkers(clock)
    assert workers.through(last, count=count, has_ended=False) == last.get("b", -1)
    clock.now += WORKER_WAIT_SECONDS - 1
    assert workers.through({**last, "a": 55}, count=count, has_ended=False) == last.get("b", -1)
    clock.now += 1
    assert workers.through({**last, "a": 60}, count=count, has_ended=False) == 60
    assert workers.through({**last, "a": 60, "b": 20}, count=count, has_ended=False) == 60  # it never goes back


def test_a_run_that_pauses_is_not_a_run_of_silent_workers() -> None:
    clock = Clock()
    workers = RecordingWorkers(clock)
    assert workers.through({"a": 5, "b": 5}, count=2, has_ended=False) == 5
    clock.now += 10 * WORKER_WAIT_SECONDS
    assert workers.through({"a": 9, "b": 5}, count=2, has_ended=False) == 5
    assert workers.through({"a": 9, "b": 9}, count=2, has_ended=False) == 9


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([5], None, id="one"),
        pytest.param([0, 10, 20], 10, id="even"),
        pytest.param([0, 10, 15, 25], 5, id="two-schedules"),
        pytest.param([0, 1, 2, *range(100, 1100, 100)], 100, id="what-was-long-ago-does-not-count"),
    ],
)
def test_the_usual_gap(steps: Sequence[int], expected: int | None) -> None:
    assert usual_gap(steps) == expected
