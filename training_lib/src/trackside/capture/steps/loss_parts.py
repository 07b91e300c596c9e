"""Losses of micro-batches that are parts of the one loss which an optimizer step minimises.

A trainer that accumulates gradients divides the loss of each micro-batch: by their number, or, where the loss is a sum,
by the number of all their rows. So the division is the evidence: a loss that nothing divides is one of several.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from trackside.capture.ground.values import Numbers, Values

MOST_LOSSES_A_STEP = 64  # a script that calls backward and never steps must not fill the memory
MOST_LATE = 4096  # parts of a loss on their way from a device; a script that never steps must not fill the memory


class Part(Enum):
    """The role of a loss among several of one name in a step.

    NONE      it is a loss of its own
    AVERAGED  a mean over its micro-batch, without the factor: the loss of the step is the mean of the parts
    SUMMED    a sum, divided by what the whole step has: the loss of the step is the sum of the parts
    """

    NONE = "none"
    AVERAGED = "averaged"
    SUMMED = "summed"


class WholeLoss:
    """A loss put together of its parts, some of them on their way from a device.

    Args:
        part: How the parts make one.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        self._total = self._weight = 0.0
        self._late: list[tuple[Values, float]] = []

    def add(self, value: float | Values, weight: float) -> None:
        """Add a part. `weight` is the factor that the script gave it, for an average."""
        factor = weight if self.part is Part.AVERAGED else 1.0
        if isinstance(value, float):
            self._total += factor * value
        elif len(self._late) < MOST_LATE:
            self._late.append((value, factor))
        else:
            return
        self._weight += weight

    def is_here(self) -> bool:
        """Return True if all parts have arrived."""
        return all(value.is_here() for value, _ in self._late)

    def get(self) -> Numbers:
        """Return the loss, shape (1,)."""
        total = self._total + sum([factor * float(value.get()[0]) for value, factor in self._late])
        is_average = self.part is Part.AVERAGED and self._weight != 0
        return np.array([total / self._weight if is_average else total])

    def value(self) -> float | Values:
        """Return the loss as a number if all parts are numbers, else this object."""
        return self if self._late else float(self.get()[0])


class SavedLoss:
    """A loss of the saved data, put together of its parts when all have arrived: the last arrival of its step.

    Args:
        name: The name of the loss.
        part: How the parts make one.
        first: The first part, whose shape and type the loss has.

    Attributes:
        array: The loss, once `wait` has returned.
    """

    def __init__(self, name: str, part: Part, first: np.ndarray) -> None:
        self.array = np.zeros_like(first)
        self._name, self._part = name, part
        self._parts: list[tuple[np.ndarray, float]] = []

    def takes(self, name: str, part: Part) -> bool:
        """Return True if a part of that name and role is one more of this loss."""
        return name == self._name and part is self._part

    def add(self, value: np.ndarray, weight: float) -> None:
        """Add a part of one element, which may still be on its way; `weight` is as in `WholeLoss.add`."""
        if len(self._parts) < MOST_LATE:
            self._parts.append((value, weight))

    def is_here(self) -> bool:
        """Return False: the parts may be on their way."""
        return False

    def wait(self) -> None:
        """Put the loss together. All parts must have arrived."""
        whole = WholeLoss(self._part)
        for value, weight in self._parts:
            whole.add(float(value.reshape(-1)[0]), weight)
        self.array[...] = whole.get()[0]


class _Place(NamedTuple):
    """A loss among those of the open step: known by its entry, as it may move up when the step before ends."""

    entry: tuple[str, float | Values]
    whole: WholeLoss


class OpenParts:
    """The losses of the open steps that may get further parts.

    Args:
        losses: Name and value of each loss of the open step of each mode. `add` changes it.
    """

    def __init__(self, losses: dict[str, list[tuple[str, float | Values]]]) -> None:
        self._losses = losses
        self._places: dict[tuple[str, str], _Place] = {}

    def add(self, name: str, value: float | Values, part: Part, *, weight: float, mode: str) -> None:
        """Join a part to those of its name in the open step, or add it as the first.

        Args:
            name: The name of the loss.
            value: The value of the part.
            part: Its role.
            weight: The factor of the script, in relation to that of the other parts.
            mode: The mode of the step.
        """
        losses = self._losses.setdefault(mode, [])
        place = self._places.get((mode, name))
        position = next((k for k, entry in enumerate(losses) if place is not None and entry is place.entry), None)
        if place is None or position is None or place.whole.part is not part:
            if len(losses) >= MOST_LOSSES_A_STEP:
                return
            if len(self._places) >= MOST_LOSSES_A_STEP:  # places of earlier steps
                self._places = {}
            place, position = _Place((name, value), WholeLoss(part)), len(losses)
            losses.append(place.entry)
        place.whole.add(value, weight)
        entry = losses[position] = (name, place.whole.value())
        self._places[mode, name] = place._replace(entry=entry)

    def settle(self) -> None:
        """Begin new losses: an optimizer has stepped on those so far."""
        self._places = {}
