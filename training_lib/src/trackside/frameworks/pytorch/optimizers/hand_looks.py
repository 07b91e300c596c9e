"""Looks at weights that a script may change itself, without a wait for a device.

On the host the values of a few elements answer. On a device that would be a wait at every pass, so there the counter of
writes and the address answer first: `p -= ...` under `no_grad()` moves the one, `p.data = ...` the other, and
`p.data -= ...` none. A script of the last kind is waited for until its newest updates had the same number of passes
each; from then on this number answers, and the values, which arrive later, are held against it. One that contradicts it
begins this anew.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence

import torch

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.device_copies import Copies, DeviceCopies

MOST_WEIGHTS = 4
AGREED = 4  # updates in a row with as many passes each
_ELEMENTS = 16  # of a weight


def is_on_device(tensor: torch.Tensor) -> bool:
    """Return True if to read the tensor makes training wait for a device."""
    return not tensor.is_cpu


class Look:
    """A look at some elements of a few weights.

    Args:
        weights: The weights.
        is_late: Returns True if to read a tensor makes training wait for a device.
    """

    def __init__(
        self, weights: Sequence[torch.Tensor], *, is_late: Callable[[torch.Tensor], bool] = is_on_device
    ) -> None:
        self._seen = [_Seen(weight, is_late(weight)) for weight in weights[:MOST_WEIGHTS]]

    @property
    def is_late(self) -> bool:
        """True if to compare values would make training wait for a device."""
        return any(seen.is_late for seen in self._seen)

    def was_written(self) -> bool:
        """Return True if writes were counted, or a weight has other memory. Waits for nothing."""
        return any(seen.was_written() for seen in self._seen)

    def has_changed(self) -> bool:
        """Return True if one of the weights has other values now. Waits for a device."""
        return any(bool(changed) for changed in self.changes())

    def changes(self) -> list[torch.Tensor]:
        """Return a truth value for each weight that still exists, on its device."""
        return [changed for seen in self._seen if (changed := seen.changed()) is not None]


class Rhythm:
    """The decision whether a step has followed a pass, for one training.

    Args:
        copies: The copier of values from devices to the host.
    """

    def __init__(self, copies: DeviceCopies | None = None) -> None:
        self._copies = copies or DeviceCopies()
        self._waiting: deque[tuple[list[Copies], bool]] = deque()  # values to come, and what was answered
        self._passes = 0  # since the look was taken
        self._updates: deque[int] = deque(maxlen=AGREED)  # passes of each; 0 for one whose writes are counted

    def has_stepped(self, look: Look) -> bool:
        """Return True if weights have changed since the look. Call it as each pass begins."""
        self._passes += 1
        found = self._answer(look)
        if found:
            self._passes = 0
        return found

    def _answer(self, look: Look) -> bool:
        if not look.is_late:
            return look.has_changed()
        if self._is_contradicted():
            self._updates.clear()
        if look.was_written():
            self._updates.append(0)
            return True
        changes = look.changes()
        if len(self._updates) == AGREED and len(set(self._updates)) == 1 and all(map(self._copies.takes, changes)):
            period = self._updates[0]
            answer = 0 < period <= self._passes
            self._waiting.append(([self._copies.one(changed) for changed in changes], answer))
            return answer
        if look.has_changed():
            self._updates.append(self._passes)
            return True
        return False

    def _is_contradicted(self) -> bool:
        """Return True if values have arrived that contradict what was answered. All answers before are settled then."""
        while self._waiting and all(_is_here(copies) for copies in self._waiting[0][0]):
            values, answer = self._waiting.popleft()
            if values and any(bool(copies.arrays[0]) for copies in values) != answer:
                self._waiting.clear()
                return True
        return False


def _is_here(copies: Copies) -> bool:
    return copies.arrival is None or copies.arrival.is_here()


class _Seen:
    """A weight as it was."""

    __slots__ = ("_address", "_before", "_reference", "_version", "is_late")

    def __init__(self, weight: torch.Tensor, is_late: bool) -> None:
        self._reference = weakref.ref(weight)
        self._before, self.is_late = _elements(weight), is_late
        self._version, self._address = weight._version, _address(weight)

    def was_written(self) -> bool:
        weight = self._reference()
        return weight is not None and (weight._version != self._version or _address(weight) != self._address)

    def changed(self) -> torch.Tensor | None:
        weight = self._reference()
        now = _elements(weight) if weight is not None and has_memory(weight) else None
        if now is None or self._before is None or now.shape != self._before.shape or now.device != self._before.device:
            return None
        return (now != self._before).any()


def _elements(weight: torch.Tensor) -> torch.Tensor | None:
    """Return a copy of the first elements of a weight; None for one without memory or elements."""
    if not has_memory(weight) or not weight.numel():
        return None
    held = weight.detach()
    part = held.to_local() if hasattr(held, "to_local") else held
    return part.reshape(-1)[:_ELEMENTS].clone()


def _address(weight: torch.Tensor) -> int:
    return weight.data_ptr() if has_memory(weight) else 0
