"""A target through outages of its store: a step that cannot be stored is lost, later ones are tried again sparsely."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from trackside.capture.ground.guard import Guard, describe
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.writer_parts import PreparingTarget, Target


class EnduringTarget:
    """The target of one writer, with the number of saved and lost steps.

    After a failure of the store no step is tried for a while, which doubles with each further failure. `lose` and
    `note_lost` may be called on any thread, all else on the writer's.

    Attributes:
        saved_steps: Steps that the target has stored.
        lost_steps: Steps that it never will.
    """

    def __init__(
        self,
        target: Target,
        *,
        guard: Guard,
        first_retry_seconds: float,
        last_retry_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._target = target
        self._preparing = target if isinstance(target, PreparingTarget) else None
        self._guard = guard
        self._first_retry_seconds, self._last_retry_seconds = first_retry_seconds, last_retry_seconds
        self._monotonic = monotonic
        # Re-entrant, for a signal handler may lose a step while the interrupted thread loses another.
        self._lock = threading.RLock()
        self._retry_at = 0.0
        self._retry_seconds = 0.0
        self._failure = ""
        self.saved_steps = 0
        self.lost_steps = 0

    @property
    def is_failing(self) -> bool:
        """True from a failure of the store until the next success."""
        return self._retry_seconds > 0

    def arrived(self, steps: Sequence[StepTensors]) -> list[bool]:
        """Wait for the values of the steps, and prepare the target if all have come.

        Return False for each step with values that never arrive because the device has failed.
        """
        arrived = [self._has_arrived(step) for step in steps]
        if self._preparing and len(steps) > 1 and all(arrived) and not self.is_failing:
            self._preparing.prepare(steps)
        return arrived

    def save(self, step: StepTensors) -> None:
        """Store one step, or lose it."""
        if self.is_failing and self._monotonic() < self._retry_at:
            self.note_lost(step, self._failure)
            return
        try:
            self._target.save(step)
        except OSError as error:
            self._failure = describe(error)
            self.lose(f"store/{type(error).__name__}", step, self._failure)
            self._retry_seconds = min(self._retry_seconds * 2 or self._first_retry_seconds, self._last_retry_seconds)
            self._retry_at = self._monotonic() + self._retry_seconds
            return
        self.saved_steps += 1
        if self.is_failing:
            self._retry_seconds = 0.0
            self._guard.warn_once("recovered", "saving works again from step %d on.", step.step)

    def lose(self, failure_class: str, step: StepTensors, reason: str) -> None:
        """Count a lost step, and log one warning for each class of failures."""
        self.note_lost(step, reason)
        self._guard.warn_once(
            failure_class,
            "step %d could not be saved: %s. Training goes on; later steps are tried again now and then.",
            step.step,
            reason,
        )

    def note_lost(self, step: StepTensors, reason: str) -> None:
        """Count a lost step without a warning."""
        with self._lock:
            self.lost_steps += 1
        self._target.lost(step.step, reason)

    def finish(self, *, is_interrupted: bool) -> None:
        """Store the end of the run, or log one warning."""
        try:
            self._target.finish(is_interrupted=is_interrupted)
        except OSError as error:
            if not self.is_failing:
                self._guard.warn_once("finish", "the end of the run could not be stored: %s.", describe(error))

    def _has_arrived(self, step: StepTensors) -> bool:
        try:
            step.wait()
        except Exception as error:  # noqa: BLE001 - the training meets that failure itself
            self.lose("device", step, f"its values did not come from the device: {describe(error)}")
            return False
        return True
