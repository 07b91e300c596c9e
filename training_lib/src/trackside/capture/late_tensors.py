"""Tensors with values that become known after the end of their step, and the steps that wait for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from trackside.capture.step_engine import Destination
    from trackside.capture.step_tensors import StepTensors


class LateTensors(Protocol):
    """Tensors of one step. The training thread reads their source later, the writer's thread makes arrays of it.

    Attributes:
        collections: The collections of all of them.
        size_bytes: Memory that counts against the budget.
    """

    collections: frozenset[str]
    size_bytes: int

    def is_ready(self) -> bool:
        """Return True once `tensors` can be called. Never waits."""

    def tensors(self) -> Iterable[tuple[str, np.ndarray]]:
        """Return names and arrays. For the writer's thread. Never raises."""


class HeldSteps:
    """A destination that holds steps back, in their order, until their late tensors are ready.

    Attributes:
        destination: The receiver of steps that are whole.
    """

    def __init__(self) -> None:
        self.destination: Destination | None = None
        self._held: deque[StepTensors] = deque()
        self._submitting: int | None = None

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
        while self._held and all(late.is_ready() for late in self._held[0].late):
            self._submitting = self._held[0].step
            step = self._held.popleft()
            if self.destination is not None:
                all_taken = self.destination.submit(step) and all_taken
            self._submitting = None
        return all_taken
