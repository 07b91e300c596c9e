"""A hang: found once, from the training's own past, and not where anything moves."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.patience import HANGS_SECONDS, wait_until
from trackside.profiling.hang_watch import LEAST_SECONDS, SAVING_TIMES, TIMES, HangWatch
from trackside.profiling.phase_clock import DATA, PhaseClock

STEP_SECONDS = 30.0


class Clock:
    """Seconds that the test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Training:
    """A thread that took ten steps of `seconds`, and then waits in a function until it is told to go on."""

    def __init__(self, clock: Clock, *, seconds: float, steps: int = 10) -> None:
        self.phases = PhaseClock(clock)
        self.orders: queue.Queue[Callable[[], object]] = queue.Queue()
        self.done: queue.Queue[None] = queue.Queue()
        self._clock, self._seconds, self._steps = clock, seconds, steps
        self.thread = threading.Thread(target=self._run, name="training")
        self.thread.start()
        self.done.get(timeout=HANGS_SECONDS)

    def order(self, act: Callable[[], object]) -> None:
        """Let the thread do something, and wait until it has."""
        self.orders.put(act)
        self.done.get(timeout=HANGS_SECONDS)

    def step(self) -> None:
        self._clock.now += self._seconds
        self.phases.take({})

    def _run(self) -> None:
        for _ in range(self._steps):
            self.step()
        self.done.put(None)
        self._wait()

    def _wait(self) -> None:
        while True:
            act = self.orders.get()
            act()
            self.done.put(None)
            if act is stop:
                return


def stop() -> None:
    """The order to end."""


@contextmanager
def training(clock: Clock, *, seconds: float = 1.0, steps: int = 10) -> Iterator[tuple[Training, HangWatch]]:
    one = Training(clock, seconds=seconds, steps=steps)
    watch = HangWatch(one.phases, is_user_file=lambda file: file == __file__, monotonic=clock)
    settle(one, watch)
    try:
        yield one, watch
    finally:
        one.order(stop)
        one.thread.join(HANGS_SECONDS)


def settle(one: Training, watch: HangWatch) -> None:
    """Look until the thread waits for its next order: only then do two looks find the same line."""
    wait_until(lambda: one.orders.empty() and _is_waiting(watch))


def _is_waiting(watch: HangWatch) -> bool:
    watch.look()
    before = watch._progress
    time.sleep(0.01)
    watch.look()
    return before == watch._progress


def test_is_found_once_with_all_stacks() -> None:
    clock = Clock()
    with training(clock) as (one, watch):
        clock.now += LEAST_SECONDS - 1
        watch.look()
        assert watch.hang is None
        clock.now += 2
        watch.look()
        hang = watch.hang
        assert hang is not None
        assert (hang.file, hang.function, hang.step, hang.is_over) == (__file__, "_wait", 10, False)
        assert "Thread training:" in hang.stacks
        assert "Thread MainThread:" not in hang.stacks, "the thread that looks"
        clock.now += 1000
        watch.look()
        assert watch.hang is hang
        one.order(one.step)
        settle(one, watch)
        assert watch.hang is not None
        assert watch.hang.is_over


def test_the_longest_step_is_the_measure() -> None:
    clock = Clock()
    with training(clock, seconds=STEP_SECONDS) as (_, watch):
        clock.now += TIMES * STEP_SECONDS - 1
        watch.look()
        assert watch.hang is None
        clock.now += 2
        watch.look()
        assert watch.hang is not None
        assert watch.hang.limit_seconds == TIMES * STEP_SECONDS


@pytest.mark.parametrize(
    "moves",
    [
        pytest.param(lambda one: one.step, id="a-step"),
        pytest.param(lambda one: lambda: one.phases.leave(one.phases.enter(DATA)), id="a-batch-of-an-evaluation"),
    ],
)
def test_what_moves_does_not_hang(moves: Callable[[Training], Callable[[], object]]) -> None:
    clock = Clock()
    with training(clock) as (one, watch):
        for _ in range(10):
            clock.now += LEAST_SECONDS * 0.9
            one.order(moves(one))
            settle(one, watch)
        assert watch.hang is None


def test_a_training_without_a_past_is_silent() -> None:
    clock = Clock()
    with training(clock, steps=5) as (_, watch):
        clock.now += 10_000
        watch.look()
        assert watch.hang is None


def test_a_checkpoint_has_more_time() -> None:
    clock = Clock()
    with training(clock) as (one, watch):
        may_end = threading.Event()

        def save_checkpoint() -> None:
            may_end.wait(HANGS_SECONDS)

        one.orders.put(save_checkpoint)
        settle(one, watch)
        clock.now += LEAST_SECONDS * SAVING_TIMES - 1
        watch.look()
        assert watch.hang is None
        clock.now += 2
        watch.look()
        assert watch.hang is not None
        may_end.set()
        one.done.get(timeout=HANGS_SECONDS)


def test_a_thread_without_lines_of_the_users_is_idle() -> None:
    clock = Clock()
    with training(clock) as (one, _):
        idle = HangWatch(one.phases, is_user_file=lambda file: False, monotonic=clock)
        for _ in range(3):
            clock.now += 10_000
            idle.look()
        assert idle.hang is None
