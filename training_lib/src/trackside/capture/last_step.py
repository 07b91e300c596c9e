"""The step that has just ended, held back so that a script can still add to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from trackside.capture.step_engine import Destination
from trackside.capture.writer import StepTensors


@dataclass(frozen=True)
class StepPosition:
    """Which step: over all modes, and within its own."""

    step: int
    mode: str
    mode_step: int


class LastStep:
    """A destination that hands a step on with the next one, or when it is released."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.destination: Destination | None = None
        self._clock = clock
        self._held: StepTensors | None = None
        self._handed_on_late: int | None = None
        self.latest: int | None = None  # the number of the last step that had anything to save

    def submit(self, step: StepTensors) -> bool:
        """Holds this one, and hands on the one before. False if that was dropped."""
        was_taken = self.release()
        self._held, self.latest = step, step.step
        return was_taken

    def amend(self, at: StepPosition, name: str, array: np.ndarray, collections: frozenset[str]) -> None:
        """Adds a tensor to the step that has just ended; it must not have been released. Of one name the last holds."""
        held = self._held
        if held is None or held.step != at.step:  # it had nothing to hand on
            self.release()
            held = StepTensors(at.step, at.mode, at.mode_step, self._clock(), ())
        tensors = {**dict(held.tensors), name: array}
        self.latest = at.step
        self._held = replace(held, tensors=tuple(tensors.items()), collections={**held.collections, name: collections})

    @property
    def held_step(self) -> int | None:
        """The step that is held, until the destination has it; None if there is none. For any thread."""
        held = self._held  # looked at first, for `release` clears it last
        return held.step if held is not None else self._handed_on_late

    def release(self) -> bool:
        """Hands on what is held. False if it was dropped."""
        held = self._held
        if held is None or self.destination is None:
            self._held = None
            return True
        self._handed_on_late, self._held = held.step, None
        try:
            return self.destination.submit(held)
        finally:
            self._handed_on_late = None
