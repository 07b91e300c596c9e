"""Steps that have ended and are held back: the newest, for the script to add to; those with values still to come."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from trackside.capture.steps.step_engine import Destination
from trackside.capture.steps.step_tensors import StepTensors


@dataclass(frozen=True)
class StepPosition:
    """The numbers of one step: over all modes, and within its own."""

    step: int
    mode: str
    mode_step: int


class LastStep:
    """A destination that holds each step back until the next one comes, or until it is released."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.submitted: Callable[[], object] = lambda: None  # called when a step comes, and the one before is handed on
        self.destination: Destination | None = None
        self._clock = clock
        self._held: StepTensors | None = None
        self._submitting: int | None = None
        self.latest: int | None = None  # the number of the last step that had anything to save

    def submit(self, step: StepTensors) -> bool:
        """Hold this step, and hand on the one before. Return False if that one was dropped."""
        was_taken = self.release()
        self._held, self.latest = step, step.step
        self.submitted()
        return was_taken

    def amend(
        self,
        at: StepPosition,
        name: str,
        array: np.ndarray,
        collections: frozenset[str],
        wall_time: float | None = None,
    ) -> None:
        """Add a tensor to the step that has just ended, which must not be released yet.

        Of one name the last one holds. `wall_time` is its moment, if not that of the step.
        """
        held = self._held
        if held is None or held.step != at.step:  # it had nothing to hand on
            self.release()
            held = StepTensors(at.step, at.mode, at.mode_step, self._clock(), ())
        tensors = {**dict(held.tensors), name: array}
        self.latest = at.step
        wall_times = held.wall_times if wall_time is None else {**held.wall_times, name: wall_time}
        self._held = replace(
            held,
            tensors=tuple(tensors.items()),
            collections={**held.collections, name: collections},
            wall_times=wall_times,
        )

    @property
    def held_step(self) -> int | None:
        """The number of the held step, until the destination has it; None if no step is held. For any thread."""
        held = self._held  # looked at first, for `release` clears it last
        return held.step if held is not None else self._submitting

    def release(self) -> bool:
        """Hand on the held step. Return False if it was dropped."""
        held = self._held
        if held is None or self.destination is None:
            self._held = None
            return True
        self._submitting, self._held = held.step, None
        try:
            return self.destination.submit(held)
        finally:
            self._submitting = None


class HeldSteps:
    """A destination that holds steps back, in their order, until their late tensors are ready.

    Attributes:
        destination: The receiver of steps that are whole.
    """

    def __init__(self) -> None:
        self.destination: Destination | None = None
        self._held: deque[StepTensors] = deque()
        self._submitting: int | None = None
        self._lock = threading.RLock()  # the run may be closed by another thread than the training's

    @property
    def first_step(self) -> int | None:
        """The number of the first step that waits; None if none does. For any thread."""
        try:
            return self._held[0].step  # looked at first, for `pass_on` notes the other before it takes the step
        except IndexError:
            return self._submitting

    def submit(self, step: StepTensors) -> bool:
        """Take a step. Return False if one was dropped."""
        self._held.append(step)
        return self.pass_on()

    def pass_on(self) -> bool:
        """Hand on the steps that are whole. Return False if one was dropped."""
        all_taken = True
        with self._lock:
            while self._held and all(late.is_ready() for late in self._held[0].late):
                self._submitting = self._held[0].step
                step = self._held.popleft()
                if self.destination is not None:
                    all_taken = self.destination.submit(step) and all_taken
                self._submitting = None
        return all_taken
