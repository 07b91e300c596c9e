"""The clock of a step: each moment in one phase."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from trackside.profiling.phase_clock import (
    BACKWARD,
    CAPTURE,
    DATA,
    EVALUATION,
    OPTIMIZER,
    OTHER,
    PhaseClock,
)


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Step:
    """A clock past its first step, and a way to let time pass."""

    def __init__(self, waited: float | None = None) -> None:
        self.time = Time()
        self.clock = PhaseClock(self.time, waited=lambda: waited)
        self.clock.take({})
        self.clock.leave_optimizer()

    def during(self, phase: int, seconds: float, inside: Callable[[], None] | None = None) -> None:
        before = self.clock.enter(phase)
        self.time.now += seconds
        if inside:
            inside()
        self.clock.leave(before)

    def passes(self, seconds: float) -> None:
        self.time.now += seconds

    def optimizer(self, seconds: float, inside: Callable[[], None] | None = None) -> None:
        self.clock.around_optimizer = self.clock.enter(OPTIMIZER)
        self.passes(seconds)
        if inside:
            inside()
        self.clock.leave_optimizer()

    def end(self) -> dict[str, float]:
        numbers: dict[tuple[str, str], float] = {}
        self.clock.take(numbers)
        return {name.removeprefix("trackside/").removesuffix("_seconds"): value for (name, _), value in numbers.items()}


def plain(step: Step) -> None:
    step.during(DATA, 4)
    step.passes(2)
    step.during(BACKWARD, 3)
    step.optimizer(1)
    step.passes(0.5)


def nested(step: Step) -> None:
    step.during(DATA, 4, lambda: step.during(CAPTURE, 1))


def closure(step: Step) -> None:
    step.optimizer(1, lambda: step.during(BACKWARD, 3))
    step.passes(1)


def optimizer_in_backward(step: Step) -> None:
    step.during(BACKWARD, 3, lambda: (step.optimizer(1), step.passes(2))[0])


def evaluation(step: Step) -> None:
    step.clock.enter(EVALUATION)
    step.passes(5)
    step.during(DATA, 2)  # the training goes on
    step.passes(1)


def another_thread(step: Step) -> None:
    thread = threading.Thread(target=lambda: step.during(DATA, 7))
    thread.start()
    thread.join()


def renamed(step: Step) -> None:
    step.passes(4)
    step.during(DATA, 1)
    step.clock.rename(OTHER, DATA)
    step.passes(2)


def renamed_by_another_thread(step: Step) -> None:
    step.passes(4)
    thread = threading.Thread(target=lambda: step.clock.rename(OTHER, DATA))
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    ("loop", "found"),
    [
        pytest.param(plain, {"step": 10.5, "data": 4, "backward": 3, "optimizer": 1}, id="each-phase-once"),
        pytest.param(nested, {"step": 5, "data": 4, "capture": 1}, id="a-phase-in-another"),
        pytest.param(closure, {"step": 5, "backward": 3, "optimizer": 1}, id="a-closure"),
        pytest.param(optimizer_in_backward, {"step": 6, "backward": 5, "optimizer": 1}, id="an-optimizer-in-backward"),
        pytest.param(evaluation, {"step": 8, "evaluation": 5, "data": 2}, id="an-evaluation-ends-with-the-training"),
        pytest.param(another_thread, {"step": 7}, id="another-thread-is-not-timed"),
        pytest.param(renamed, {"step": 7, "data": 5}, id="time-so-far-was-another-phase"),
        pytest.param(renamed_by_another_thread, {"step": 4}, id="another-thread-renames-nothing"),
        pytest.param(lambda step: step.passes(3), {"step": 3}, id="no-phase-is-absent-not-0"),
    ],
)
def test_each_moment_is_in_one_phase(loop: Callable[[Step], None], found: dict[str, float]) -> None:
    step = Step()
    loop(step)
    assert step.end() == found
    step.passes(2)
    assert step.end() == {"step": 2} or loop is evaluation, "nothing is left for the step after"


@pytest.mark.parametrize(
    ("waited", "found"),
    [
        pytest.param(0.5, {"step": 2, "processor_wait": 0.5}, id="part-of-the-step"),
        pytest.param(0.0, {"step": 2, "processor_wait": 0.0}, id="none-is-0"),
        pytest.param(3.0, {"step": 2, "processor_wait": 2}, id="no-more-than-the-step"),
        pytest.param(None, {"step": 2}, id="unknown-is-absent"),
    ],
)
def test_waits_for_a_processor(waited: float | None, found: dict[str, float]) -> None:
    step = Step(waited)
    step.passes(2)
    assert step.end() == found


def test_the_first_step_has_no_numbers() -> None:
    time = Time()
    clock = PhaseClock(time)
    clock.leave(clock.enter(DATA))
    numbers: dict[tuple[str, str], float] = {}
    clock.take(numbers)
    assert (numbers, clock.steps, clock.current) == ({}, 1, CAPTURE)
    clock.leave_optimizer()
    assert clock.current == OTHER
