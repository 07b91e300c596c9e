"""Windows of detailed profiling: at which steps a profiler is at work, and what its end brings."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from trackside.contracts.run.profiling_request import MOST_SECONDS, Window
from trackside.profiling.windows import Begin, Finished, ProfilingWindow, ProfilingWindows, Recording, Write


class Steps:
    """A profiler that knows the steps in which it is at work."""

    def __init__(self, *, refuses: int = 0, loses: bool = False) -> None:
        self.begun = self.ended = 0
        self._refuses, self._loses = refuses, loses

    def begin(self) -> Recording | None:
        if self._refuses:
            self._refuses -= 1
            return None
        self.begun += 1
        return self

    def stop(self) -> Write | None:
        self.ended += 1
        return None if self._loses else lambda folder: None


class Training:
    """A training of steps that take a second each."""

    def __init__(self, **begin: Begin) -> None:
        self.now = 1000.0
        windows = [
            ProfilingWindow(kind, one, is_by_step=kind == "python", wall_clock=lambda: self.now)
            for kind, one in begin.items()
        ]
        self.windows = ProfilingWindows(*windows)
        self.watched: list[int] = []

    def run(self, steps: range) -> list[tuple[str, int, int]]:
        for step in steps:
            if step - 1 >= self.windows.watched_from:
                self.watched.append(step)
                self.windows.step_began(step)
            self.now += 1
        return spans(self.windows.finished)


def spans(finished: object) -> list[tuple[str, int, int]]:
    return [(one.kind, one.first_step, one.last_step) for one in finished]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window(10, 3), [("operators", 10, 12)]),
        (Window(10, 1), [("operators", 10, 10)]),
        (Window(None, 2), [("operators", 1, 2)]),  # the next steps
        (Window(0, 3), [("operators", 1, 2)]),  # step 0 has begun
        (Window(-20, 3), []),  # before this process
        (Window(100, 3), []),
        (Window(starts_at=1004.5, seconds=2.0), [("operators", 6, 7)]),
        (Window(starts_at=1004.5), [("operators", 6, 6)]),
        (Window(starts_at=0.0, seconds=2.5), [("operators", 1, 3)]),
        (Window(starts_at=900.0, seconds=2.0), []),  # over long ago
    ],
)
def test_a_window_holds_its_steps(window: Window, expected: list[tuple[str, int, int]]) -> None:
    training = Training(operators=Steps().begin)
    training.windows.open("operators", window)
    assert training.run(range(1, 40)) == expected


def test_no_step_is_watched_without_a_window() -> None:
    training = Training(operators=Steps().begin)
    training.run(range(1, 20))
    assert training.watched == []
    training.windows.open("operators", Window(30, 2))
    training.run(range(20, 50))
    assert training.watched == [20, 30, 31, 32]
    assert training.windows.watched_from is math.inf


def test_a_profile_of_each_step() -> None:
    training = Training(python=Steps().begin)
    training.windows.open("python", Window(5, 3))
    assert training.run(range(1, 20)) == [("python", 5, 5), ("python", 6, 6), ("python", 7, 7)]


def test_windows_of_the_next_steps_are_one_after_the_other() -> None:
    training = Training(operators=Steps().begin, python=Steps().begin)
    for kind in ("operators", "python"):
        training.windows.open(kind, Window(None, 2))
    assert training.run(range(1, 20)) == [("operators", 1, 2), ("python", 3, 3), ("python", 4, 4)]


def test_a_profiler_of_the_script_goes_first() -> None:
    training = Training(operators=Steps(refuses=2).begin)
    training.windows.open("operators", Window(5, 4))
    assert training.run(range(1, 20)) == [("operators", 7, 8)]


def test_a_script_that_profiles_all_the_time_is_not_watched_for_ever() -> None:
    profiler = Steps(refuses=10_000)
    training = Training(operators=profiler.begin)
    training.windows.open("operators", Window(None, 2))
    assert training.run(range(1, 200)) == []
    assert training.windows.watched_from is math.inf


def test_lost_data_are_not_stored() -> None:
    training = Training(operators=Steps(loses=True).begin)
    training.windows.open("operators", Window(5, 2))
    assert training.run(range(1, 20)) == []
    assert training.windows.watched_from is math.inf


def test_slow_steps_end_a_window_early() -> None:
    training = Training(operators=Steps().begin)
    training.windows.open("operators", Window(5, 200))
    (one,) = training.run(range(1, 200))
    assert one == ("operators", 5, 5 + int(MOST_SECONDS) - 1)


def test_a_new_window_ends_the_one_before() -> None:
    profiler = Steps()
    training = Training(operators=profiler.begin)
    training.windows.open("operators", Window(5, 50))
    training.run(range(1, 10))
    training.windows.open("operators", Window(20, 2))
    assert training.run(range(10, 40)) == [("operators", 5, 9), ("operators", 20, 21)]
    training.windows.open("operators", None)
    training.run(range(40, 45))
    assert (profiler.begun, profiler.ended) == (2, 2)


def test_the_end_of_the_training_ends_a_profile() -> None:
    profiler = Steps()
    training = Training(operators=profiler.begin)
    training.windows.open("operators", Window(5, 50))
    training.run(range(1, 8))
    training.windows.end()
    assert spans(training.windows.finished) == [("operators", 5, 6)], "step 7 has not ended"
    assert profiler.ended == 1


def test_the_writer_gets_the_function_that_writes(tmp_path: Path) -> None:
    class Real(Steps):
        def stop(self) -> Write | None:
            return lambda folder: (folder / "x").write_text("data")  # type: ignore[return-value]

    training = Training(operators=Real().begin)
    training.windows.open("operators", Window(2, 1))
    training.run(range(1, 9))
    one: Finished = training.windows.finished[0]
    one.write(tmp_path)
    assert (tmp_path / "x").read_text() == "data"
    assert (one.started_at, one.ended_at) == (1001.0, 1002.0)
