"""The parts that a writer is given: the receiver of its steps, and tasks for its thread between steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from trackside.capture.steps.step_tensors import StepTensors


class Target(Protocol):
    """A receiver of steps that stores them. Called on the writer thread only."""

    def save(self, step: StepTensors) -> None:
        """Store one step whole. Errors: `OSError` for an outage, after which a later step may succeed."""

    def lost(self, step: int, reason: str) -> None:
        """Note that nothing of a step will be stored. Called on any thread; never raises, never waits."""

    def finish(self, *, is_interrupted: bool) -> None:
        """Store the data that ends the run, or ends a process that was asked to stop. Errors: as `save`."""


@runtime_checkable
class PreparingTarget(Target, Protocol):
    """A target that can do some of the work for several steps at once."""

    def prepare(self, steps: Sequence[StepTensors]) -> None:
        """Prepare the steps that `save` is called with next, in this order.

        Errors: none of the store; `save` raises them.
        """


class BackgroundPart(Protocol):
    """A task of the writer thread between steps, such as a log that is flushed now and then. For no other thread."""

    @property
    def due_in_seconds(self) -> float:
        """Seconds that the thread may sleep before it should call `flush_if_due`."""

    def flush_if_due(self) -> bool:
        """Store the waiting data, if it is time. Return True if it did.

        Errors: `OSError` for an outage; a later call tries again.
        """

    def flush(self) -> None:
        """Store the waiting data. Errors: as `flush_if_due`."""

    def close(self) -> None:
        """Store the rest. Errors: as `flush_if_due`."""
