"""Copies of the user's tensors, added to the open step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
import torch

from trackside.capture.ground.free_memory import MemoryRoom
from trackside.capture.ground.guard import Guard, describe
from trackside.capture.steps.step_engine import StepEngine
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import copy_to_array, is_in_cuda_graph, is_one
from trackside.frameworks.pytorch.saving.device_copies import DeviceCopies
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES, Slabs, is_dense, is_plain, parts_of
from trackside.frameworks.pytorch.sharding.shards import shard_of
from trackside.records.shards import Shard

# Before the first optimizer's step this process may never train at all.
MOST_BYTES_BEFORE_TRAINING = 256 * 2**20

_NO_COLLECTIONS: frozenset[str] = frozenset()


class TensorSaver:
    """A copier of the tensors that the open step saves.

    A tensor that cannot be copied is left out, with one warning. Without the memory for a copy the whole step is lost.
    """

    def __init__(
        self, engine: StepEngine, guard: Guard, *, shards: dict[str, Shard], room: MemoryRoom | None = None
    ) -> None:
        self._engine = engine
        self._guard = guard
        self._bytes_left: int | None = MOST_BYTES_BEFORE_TRAINING
        self.slabs = Slabs()
        self._device_copies = DeviceCopies()
        self._room = room or MemoryRoom()
        self.shards = shards  # which part of a sharded tensor this rank holds, by name

    def training_began(self) -> None:
        """Let the queue of the writer bound the memory from now on."""
        self._bytes_left = None

    def has_freed(self, size_bytes: int) -> None:
        """Add `size_bytes` of dropped copies back to the budget before the first step."""
        if self._bytes_left is not None:
            self._bytes_left = min(self._bytes_left + size_bytes, MOST_BYTES_BEFORE_TRAINING)

    def save(
        self,
        name: str,
        tensor: torch.Tensor,
        *,
        collection: str = "",
        collections: frozenset[str] = _NO_COLLECTIONS,
        scale: float | torch.Tensor = 1.0,
    ) -> None:
        """Add the tensor's value, divided by `scale`, if the open step saves it.

        `collection` is one that it belongs to, or `collections` are several.
        """
        collections = frozenset({collection}) if collection else collections
        if not self._engine.open_step.wants(name, collections=collections) or not self._fits([tensor]):
            return
        if self.is_sent(tensor):
            array, scale = self.sent(name, tensor, scale=scale), 1.0
        else:
            array = self.copied(name, tensor)
        if array is not None:
            value = array if is_one(scale) else np.asarray(array / float(scale), array.dtype)
            self._engine.open_step.add(name, value, collections=collections)
            self._note_shard(name, tensor)

    def save_all(self, named: Sequence[tuple[str, torch.Tensor]]) -> None:
        """Save each tensor as `save`, with one copy for all dense ones in this process's own memory."""
        engine = self._engine
        together: dict[str, np.ndarray] = {}
        by_device = self._by_device(named)
        if not self._fits([tensor for plain in by_device.values() for _, tensor in plain]):
            return
        for device, plain in by_device.items():
            arrays = self._copied_together(device, [tensor for _, tensor in plain])
            together.update(zip((name for name, _ in plain), arrays or (), strict=False))
        for name, tensor in named:
            array = together.get(name)
            if array is not None:
                engine.open_step.add(name, array)
            else:
                self.save(name, tensor)

    def _by_device(
        self, named: Sequence[tuple[str, torch.Tensor]]
    ) -> dict[torch.device, list[tuple[str, torch.Tensor]]]:
        """Return the tensors that are saved and can be copied together, by device."""
        found: dict[torch.device, list[tuple[str, torch.Tensor]]] = {}
        for name, tensor in named:
            can_be_copied = is_plain(tensor) or self._device_copies.takes(tensor)
            if can_be_copied and self._engine.open_step.wants(name) and has_memory(tensor):
                found.setdefault(tensor.device, []).append((name, tensor))
        return found

    def _copied_together(self, device: torch.device, tensors: Sequence[torch.Tensor]) -> list[np.ndarray] | None:
        """Return the values of tensors of one device; None if each is to be copied by itself."""
        if len(tensors) < 2 or self._bytes_left is not None or is_in_cuda_graph(tensors[0]) or self._spills(*tensors):
            return None
        try:
            with outside_of_modes():
                if not self._device_copies.takes(tensors[0]):
                    return self.slabs.copies(tensors)
                copies = self._device_copies.together(tensors)
        except Exception:  # noqa: BLE001 - which of them it is shows when each is copied by itself
            return None
        if copies is None:
            return None
        if copies.arrival is not None:
            self._engine.open_step.add_arrival(copies.arrival)
        return copies.arrays

    def is_sent(self, tensor: torch.Tensor) -> bool:
        """Return True if the tensor lies on a device, and training need not wait for its value."""
        return self._bytes_left is None and self._device_copies.takes(tensor) and not self._spills(tensor)

    def sent(self, name: str, tensor: torch.Tensor, *, scale: float | torch.Tensor = 1.0) -> np.ndarray | None:
        """Return the array for the value of a tensor that `is_sent`, divided by `scale`; None if it cannot be copied.

        The open step gets the arrival of the value.
        """
        if is_in_cuda_graph(tensor):
            return None
        try:
            with outside_of_modes():
                copies = self._device_copies.one(tensor, scale=scale)
        except Exception as error:  # noqa: BLE001 - as in `copied`
            self._leave_out(name, error)
            return None
        if copies.arrival is not None:
            self._engine.open_step.add_arrival(copies.arrival)
        return copies.arrays[0]

    def copied(self, name: str, tensor: torch.Tensor) -> np.ndarray | None:
        """Return the tensor's value as an array of our own; None if it cannot be copied."""
        if is_in_cuda_graph(tensor) or not self._has_room(tensor):
            return None
        try:
            with outside_of_modes():
                return self._spilled(tensor) if self._spills(tensor) else copy_to_array(tensor)
        except Exception as error:  # noqa: BLE001 - one odd tensor must not cost the user all others
            self._leave_out(name, error)
            return None

    def _spills(self, *tensors: torch.Tensor) -> bool:
        if not self._engine.spill.most_bytes:  # as nearly always
            return False
        return self._engine.open_step.memory.spills(sum(map(_size_bytes, tensors)))

    def _spilled(self, tensor: torch.Tensor) -> np.ndarray:
        """Return the tensor's value in a file. Of a dense one in C order at most a part is copied in memory."""
        if is_dense(tensor):
            with suppress(OSError):  # the open step gives up, and tells why
                parts, dtype = parts_of(tensor)
                return self._engine.spill.copy(parts, shape=tuple(tensor.shape), dtype=dtype)
        return copy_to_array(tensor)  # the open step moves it

    def _leave_out(self, name: str, error: Exception) -> None:
        message = "%s cannot be copied and is left out, as is any other that fails in this way: %s."
        self._guard.warn_once(f"copy/{type(error).__name__}", message, name, describe(error))

    def save_activation(
        self, name: str, tensor: torch.Tensor, *, collection: str = "", collections: frozenset[str] = _NO_COLLECTIONS
    ) -> None:
        """Save a tensor between modules, as `save`. A tensor without a value is ignored without a message."""
        if has_memory(tensor):
            self.save(name, tensor, collection=collection, collections=collections)

    def _note_shard(self, name: str, tensor: torch.Tensor) -> None:
        if type(tensor) in PLAIN_TYPES or name in self.shards:
            return
        shard = shard_of(tensor)
        if shard is not None:
            self.shards[name] = shard

    def _fits(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Return True if a copy of these fits into the free memory. Else the open step is given up."""
        lacking = self._room.lacks(self._engine.spill.in_memory(sum(map(_size_bytes, tensors))))
        if lacking:
            self._engine.open_step.clear()
            self._engine.open_step.lost = lacking
        return not lacking

    def _has_room(self, tensor: torch.Tensor) -> bool:
        if self._bytes_left is None:
            return True
        self._bytes_left -= _size_bytes(tensor)
        return self._bytes_left >= 0


def _size_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


@contextmanager
def outside_of_modes() -> Iterator[None]:
    """Hide operations in the block from dispatch modes: selective checkpointing would replay our copies."""
    if not torch._C._len_torch_dispatch_stack():
        yield
        return
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield
