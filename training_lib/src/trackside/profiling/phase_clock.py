"""The clock of a training step: all time of the training thread, each moment in one phase.

    before = clock.enter(Phase.BACKWARD)
    try:
        ...
    finally:
        clock.leave(before)
    ...
    clock.take(numbers)        # at the end of a step: the seconds of each phase that the step had

A phase that never occurred is absent, not 0, and so is an unknown wait for a processor. Time in no other phase is
`OTHER`, and recorded as the step's rest: it is the difference between the step and its phases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping
from enum import IntEnum
from threading import get_ident
from typing import Any, Protocol

from trackside.contracts.run.recorded_names import (
    BACKWARD_SECONDS,
    CAPTURE_SECONDS,
    DATA_SECONDS,
    EVALUATION_SECONDS,
    OPTIMIZER_SECONDS,
    PROCESSOR_WAIT_SECONDS,
    STEP_SECONDS,
)


class Phase(IntEnum):
    """The phases of a step."""

    OTHER = 0
    DATA = 1  # a batch is fetched from a DataLoader
    BACKWARD = 2
    OPTIMIZER = 3
    CAPTURE = 4  # our own cost
    EVALUATION = 5


OTHER, DATA, BACKWARD, OPTIMIZER, CAPTURE, EVALUATION = map(int, Phase)  # plain numbers cost less
FIRST_STEPS = 5  # without which the longest is known
NOT_OURS = -1  # another thread than the training's

PHASE_KEYS = {
    DATA: (DATA_SECONDS, "mean"),
    BACKWARD: (BACKWARD_SECONDS, "mean"),
    OPTIMIZER: (OPTIMIZER_SECONDS, "mean"),
    CAPTURE: (CAPTURE_SECONDS, "mean"),
    EVALUATION: (EVALUATION_SECONDS, "mean"),
}
STEP_KEY = (STEP_SECONDS, "mean")
WAIT_KEY = (PROCESSOR_WAIT_SECONDS, "mean")


class Meter(Protocol):
    """A meter of our own code on the training thread."""

    @property
    def is_on(self) -> bool: ...

    def enter(self) -> None:
        """Note that our code begins."""

    def leave(self) -> None:
        """Note that our code has ended."""


class PhaseClock:
    """The clock of one training. It counts from the end of the first step on.

    Attributes:
        current: The phase of this moment.
        thread: The thread that trains; 0 before the first step.
        steps: Number of steps that have ended.
        longest: Seconds of the longest step, without the first ones.
        is_stopped: True while steps pass that are not timed: the phase of this moment is not known.
        around_optimizer: The phase that the newest step of an optimizer interrupted.
        moved_at: The moment of the newest change of phase, by the clock.
        began: The moment at which the step began, by the clock.
        seconds: Seconds of the step in each phase so far.
        read: The clock.
        meter, waited, waits_so_far: See below.

    Args:
        clock: Returns seconds.
        meter: Notified where `CAPTURE` begins and ends, while it is on.
        waited: Returns the seconds since its last call in which this thread had no processor; None if unknown.
        waits_so_far: Returns the same without a new start.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        meter: Meter | None = None,
        *,
        waited: Callable[[], float | None] = lambda: None,
        waits_so_far: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.meter, self.waited, self.waits_so_far = meter, waited, waits_so_far
        self.current = OTHER
        self.thread = self.steps = 0
        self.longest = 0.0
        self.is_stopped = False
        self.around_optimizer = OTHER
        self.read = clock
        self.began = self.moved_at = 0.0
        self.seconds = [0.0] * len(Phase)

    def enter(self, phase: int) -> int:
        """Begin a phase. Return the phase before, for `leave`."""
        if get_ident() != self.thread:
            return NOT_OURS
        now = self.read()
        before = self.current
        self.seconds[before] += now - self.moved_at
        self.moved_at = now
        self.current = phase
        meter = self.meter
        if meter is not None and meter.is_on:
            if phase == CAPTURE:
                meter.enter()
            elif before == CAPTURE:
                meter.leave()
        return before

    def rename(self, phase: int, other: int) -> None:
        """Count the seconds of this step in one phase so far for another one. They are added to its own.

        Args:
            phase: The phase that they were counted for.
            other: The phase that they were.
        """
        if get_ident() == self.thread:
            self.seconds[other] += self.seconds[phase]
            self.seconds[phase] = 0.0

    def leave(self, before: int) -> None:
        """Return to the phase before. An evaluation is over once the training goes on.

        Args:
            before: Result of `enter`.
        """
        if before >= 0:
            self.enter(OTHER if before == EVALUATION else before)

    def leave_optimizer(self) -> None:
        """Return from the step of an optimizer, which may be part of a backward pass."""
        self.enter(BACKWARD if self.around_optimizer == BACKWARD else OTHER)

    def stop(self) -> None:
        """Time nothing until `restart`: phases pass unseen."""
        self.is_stopped = True

    def restart(self, steps: int) -> None:
        """Begin a step at this moment, after steps that were not timed.

        Args:
            steps: Their number.
        """
        self.is_stopped = False
        self.waited()
        self.seconds = [0.0] * len(Phase)
        self.current = OTHER
        self.steps += steps
        self.began = self.moved_at = self.read()

    def take(self, numbers: MutableMapping[tuple[str, str], Any]) -> None:
        """End a step: add its seconds, and those of each phase that it had, to its numbers.

        Args:
            numbers: The numbers of the step, by name and statistic.
        """
        now, waited = self.read(), self.waited()
        thread = get_ident()
        if thread != self.thread:  # the first step, or the training has moved to another thread
            self.thread, self.current = thread, CAPTURE
        else:
            seconds = self.seconds
            seconds[self.current] += now - self.moved_at
            numbers[STEP_KEY] = took = now - self.began
            if took > self.longest and self.steps > FIRST_STEPS:
                self.longest = took
            if waited is not None:
                numbers[WAIT_KEY] = min(waited, took)
            for phase, key in PHASE_KEYS.items():
                if seconds[phase]:
                    numbers[key] = seconds[phase]
        self.seconds = [0.0] * len(Phase)
        self.began = self.moved_at = now
        self.steps += 1
