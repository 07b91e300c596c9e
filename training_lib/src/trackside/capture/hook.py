"""The step engine: which step it is, what it must save, and what it has saved so far. Knows no framework."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from trackside.capture.collection import Membership
from trackside.capture.schedule import NOTHING, Due, due_at, next_due_step
from trackside.capture.writer import StepTensors
from trackside.contracts.capture_request import CaptureRequest

TRAIN = "TRAIN"  # everything is captured around optimizer steps, and only training has those
MOST_LOSSES_A_STEP = 64  # a script that calls backward and never steps must not fill the memory


class Destination(Protocol):
    """Where whole steps go."""

    def submit(self, step: StepTensors) -> bool:
        """Takes a step; False if it was dropped."""


class Hook:
    """Collects one step after another and hands each on whole.

    An adapter asks `due`, adds losses and tensors, and calls `end_step` at the boundary. An idle step costs one
    addition and one comparison.
    """

    def __init__(self, request: CaptureRequest, *, clock: Callable[[], float] = time.time) -> None:
        self._request = request
        self._clock = clock
        self._membership = Membership(request)
        self._destination: Destination | None = None
        self._tensors: dict[str, np.ndarray] = {}
        self._losses: list[tuple[str, np.ndarray]] = []
        self._settled_losses = 0
        self.step = 0
        self._next_due: int | None = None
        self.due: Due = NOTHING
        self._look_ahead()

    def connect(self, destination: Destination) -> None:
        """Says where steps go. Until then they are held; only the first step, before its end, is ever not connected."""
        self._destination = destination

    def wants(self, tensor_name: str) -> bool:
        """True if the tensor belongs to a collection that is due on this step."""
        return not self.due.collections.isdisjoint(self._membership.of(tensor_name))

    def add(self, name: str, array: np.ndarray) -> None:
        """Adds a tensor to the open step; the array must be a copy. A tensor without elements is left out."""
        if array.size:
            self._tensors[name] = array

    def has(self, name: str) -> bool:
        """True if the open step holds this tensor already."""
        return name in self._tensors

    def add_loss(self, loss_name: str, value: np.ndarray) -> None:
        """Adds a loss to the open step; the k-th of one name in a step is saved as `<loss_name>_output_<k>`."""
        if len(self._losses) < MOST_LOSSES_A_STEP:
            self._losses.append((loss_name, value))

    def settle(self) -> None:
        """Marks the losses added so far as the open step's own: an optimizer has stepped on them."""
        self._settled_losses = len(self._losses)

    def end_step(self, *, keep_unsettled: bool = False) -> None:
        """Hands the open step on if it holds anything, and opens the next.

        With `keep_unsettled`, the losses since the last `settle` are the next step's.
        """
        if self.due is not NOTHING:
            self._hand_on(keep_unsettled)
        self.step += 1
        if self.step == self._next_due or self.due is not NOTHING:
            self._look_ahead()

    def _hand_on(self, keep_unsettled: bool) -> None:
        end = self._settled_losses if keep_unsettled else len(self._losses)
        tensors = {**self._named_losses(self._losses[:end]), **self._tensors}
        if tensors and self._destination is not None:
            step = StepTensors(self.step, TRAIN, self.step, self._clock(), tuple(tensors.items()))
            self._destination.submit(step)
        self._tensors = {}
        self._losses = self._losses[end:]
        self._settled_losses = 0

    def _named_losses(self, losses: list[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
        counts: dict[str, int] = {}
        named: dict[str, np.ndarray] = {}
        for loss_name, value in losses:
            k = counts[loss_name] = counts.get(loss_name, -1) + 1
            name = f"{loss_name}_output_{k}"
            if self.wants(name):
                named[name] = value
        return named

    def _look_ahead(self) -> None:
        self.due = due_at(self._request, self.step)
        self._next_due = next_due_step(self._request, self.step + 1)
        if not self.due.losses:
            self._losses = []
