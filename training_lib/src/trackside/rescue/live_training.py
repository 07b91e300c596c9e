"""One training of this process, from its first step on: its leading optimizer, its numbers, when to look at them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.contracts.run.rescue import RescueState, RescueTry
from trackside.contracts.run.restart import Report
from trackside.environment import RescueEnvironment
from trackside.rescue.agreement import Agreement
from trackside.rescue.course import Course
from trackside.rescue.fault_course import FaultCourse
from trackside.rescue.health import Health
from trackside.rescue.kept_trees import all_finite
from trackside.rescue.numbers import Numbers, StepNumbers
from trackside.rescue.returns import Returns
from trackside.rescue.ring import Ring
from trackside.rescue.room import Room
from trackside.rescue.standing import StandingIssues

_LOOK_SHARE = 0.007  # of the training's time, for looks
_FIRST_STEPS = 400  # each of which is looked at, as capture watches each
_MOST_STEPS_UNSEEN = 50
_OTHERS_STEPS = 50  # of other optimizers, after which the leading one trains no more
_HUGE = 1e6  # times the usual gradient: the optimizer's state may have overflowed


class LiveTraining:
    """One training.

    Attributes:
        returns: Its returns to earlier moments.

    Args:
        settings: Numbers of copies and tries.
        numbers: Reads the numbers of a step; it gets the losses.
        standing: The issues that rules have found.
        tries: Returns of earlier trainings of this process, which count.
        faults: Returns the course of a training that is not put back here, by its health; None to put it back.
        changed: Called with the state after each return, and once it is judged.
        end: Called with the state and the reason once no more returns are made.
        clock: Returns seconds.
        thread_clock: Returns the processor time of the calling thread.
    """

    def __init__(
        self,
        settings: RescueEnvironment,
        *,
        numbers: StepNumbers,
        standing: StandingIssues,
        tries: list[RescueTry],
        faults: Callable[[Health], FaultCourse] | None = None,
        changed: Callable[[RescueState], object],
        end: Callable[[RescueState, str], object],
        clock: Callable[[], float],
        thread_clock: Callable[[], float],
    ) -> None:
        self._clock, self._thread_clock, self._numbers = clock, thread_clock, numbers
        limit, folder = settings.memory_mb, settings.folder
        room = Room(limit << 20 if limit is not None else None, Path(folder) if folder else None)
        self._health = Health()
        self._ring = Ring(settings.copies, room, clock=clock, thread_clock=thread_clock)
        self.returns = Returns(self._ring, self._health, settings=settings, tries=tries, changed=changed)
        self._course: Course | FaultCourse
        if faults is not None:
            self._course = faults(self._health)
            self.returns.soften(self._course.softening())
        else:
            went_back = self._numbers.forget
            self._course = Course(self._ring, self._health, self.returns, standing, end=end, went_back=went_back)
        self._lead: weakref.ref[Optimizer] | None = None
        self._is_over = False
        self._thread = 0
        self._steps = 0  # training steps that have ended
        self._others = self._unseen = self._looked = 0
        self._every, self._step_seconds, self._left_at = 1, 0.0, 0.0
        numbers.forget()

    @property
    def has_begun(self) -> bool:
        """True once an optimizer leads it."""
        return self._lead is not None

    @property
    def steps(self) -> int:
        """Number of training steps that have ended."""
        return self._steps

    def begin(self, optimizer: Optimizer) -> None:
        """Begin, led by an optimizer that this thread has stepped."""
        self._lead, self._thread = weakref.ref(optimizer), get_ident()

    def join(self, store: Any, number: int, ranks: int, *, training: int) -> None:
        """Act together with other ranks from here on; see `Agreement`."""
        if isinstance(self._course, FaultCourse):
            return
        agreement = Agreement(store, ranks, training=training, can_do=self._course.can_do)
        self._course.join(agreement, is_first=number == 0)

    def end(self) -> None:
        """Leave the training alone from here on, and let go of its optimizers."""
        self._is_over = True
        self.returns.end()

    def last_report(self) -> Report | None:
        """Return the report at the end of the process, of a training that is not put back here."""
        return self._course.ended(self._steps) if isinstance(self._course, FaultCourse) and self.has_begun else None

    def is_led_by(self, optimizer: Optimizer) -> bool | None:
        """Return True for the leading optimizer, and None if this one is to lead a new training instead."""
        lead = self._lead() if self._lead is not None else None
        if lead is optimizer:
            self._others = 0
            return get_ident() == self._thread
        self._others += 1
        return False if lead is not None and self._others <= _OTHERS_STEPS else None

    def note(self, optimizer: Optimizer) -> None:
        """Note a step of any optimizer."""
        if get_ident() == self._thread:
            self._ring.members.stepped(optimizer)

    def stepped(self, steps: int) -> None:
        """Look at the training after a step of the leading optimizer, if it is time.

        Args:
            steps: Number of training steps that capture has counted; at rest it may count later.
        """
        self._steps = max(self._steps + 1, steps)
        self._course.step_ended(self._steps)
        if self._is_over:
            return
        now = self._clock()
        if self._left_at and self._unseen == 0:  # the time of a step without ours
            self._step_seconds = now - self._left_at
        self._unseen += 1
        if self._unseen < self._every:
            return
        self._unseen, started = 0, self._thread_clock()
        self._look()
        spent, left = self._thread_clock() - started, self._clock()
        self._looked += 1
        if self._step_seconds > 0 and self._looked >= _FIRST_STEPS:
            self._every = min(_MOST_STEPS_UNSEEN, max(1, math.ceil(spent / (_LOOK_SHARE * self._step_seconds))))
        self._left_at = left

    def skipped(self, optimizer: Optimizer) -> None:
        """Look at a step that a gradient scaler has left out: with broken weights, all to come would be."""
        if self._lead is None or self._lead() is not optimizer or get_ident() != self._thread:
            return
        self._course.step_ended(self._steps)
        if not self._is_over:
            self._look(is_skipped=True)

    def _look(self, *, is_skipped: bool = False) -> None:
        optimizers = self._trained()
        numbers = self._numbers.read(optimizers, self._steps, scale=self._scale())
        if numbers is not None and not (is_skipped and math.isfinite(numbers.weights)):
            fault = self._health.observe(numbers, state_is_finite=self._state_is_finite(numbers, optimizers))
            self._course.act(fault, numbers, self._steps)

    def _trained(self) -> list[Optimizer]:
        lead = self._lead() if self._lead is not None else None
        found = list(self._ring.members.optimizers())
        return found or ([lead] if lead is not None else [])

    def _scale(self) -> torch.Tensor | None:
        for other in self._ring.members.others():
            scale = getattr(other, "_scale", None)
            if isinstance(scale, torch.Tensor) and isinstance(other, torch.amp.GradScaler):
                return scale
        return None

    def _state_is_finite(self, numbers: Numbers, optimizers: list[Optimizer]) -> bool:
        """Return False if a gradient far beyond the usual has left an optimizer's state broken."""
        gradient = numbers.gradient
        if gradient is None or gradient <= _HUGE * max(self._health.gradient, 1e-30):
            return True
        return all(all_finite(each.state) for each in optimizers)
