"""From a tensor of the user's to a tensor of the open step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from trackside.capture.guard import Guard, describe
from trackside.capture.hook import Hook
from trackside.frameworks.pytorch.copying import copy_to_array, is_in_cuda_graph
from trackside.frameworks.pytorch.sharding import shard_of
from trackside.frameworks.pytorch.slabs import PLAIN_TYPES, Slabs, is_plain
from trackside.frameworks.pytorch.structures import holds_value
from trackside.records.shards import Shard

# Before the first optimizer's step nobody knows whether this process will ever train.
MOST_BYTES_BEFORE_TRAINING = 256 * 2**20

_NO_COLLECTIONS: frozenset[str] = frozenset()


class TensorSaver:
    """Copies what the open step wants. A tensor that cannot be copied costs only itself, and is said once."""

    def __init__(self, hook: Hook, guard: Guard) -> None:
        self._hook = hook
        self._guard = guard
        self._bytes_left: int | None = MOST_BYTES_BEFORE_TRAINING
        self.slabs = Slabs()
        self.shards: dict[str, Shard] = {}  # which part of a sharded tensor this rank holds, by name

    def training_began(self) -> None:
        """From now on the queue of the writer bounds the memory."""
        self._bytes_left = None

    def has_freed(self, size_bytes: int) -> None:
        """Before the first step: so much of what was copied is let go again."""
        if self._bytes_left is not None:
            self._bytes_left = min(self._bytes_left + size_bytes, MOST_BYTES_BEFORE_TRAINING)

    def save(
        self,
        name: str,
        tensor: torch.Tensor,
        *,
        collection: str = "",
        collections: frozenset[str] = _NO_COLLECTIONS,
        scale: float = 1.0,
    ) -> None:
        """Adds the tensor's value, divided by `scale`, if the open step wants it.

        `collection` is one it belongs to, or `collections` are those.
        """
        collections = frozenset({collection}) if collection else collections
        if not self._hook.wants(name, collections=collections):
            return
        array = self.copied(name, tensor)
        if array is not None:
            value = array if scale == 1 else np.asarray(array / scale, array.dtype)
            self._hook.add(name, value, collections=collections)
            self._note_shard(name, tensor)

    def save_all(self, named: Sequence[tuple[str, torch.Tensor]]) -> None:
        """As `save` of each, with one copy for all of them that are dense and lie in this process's own memory."""
        hook = self._hook
        plain = [(name, tensor) for name, tensor in named if is_plain(tensor) and hook.wants(name)]
        arrays = self._copied_together([tensor for _, tensor in plain])
        together = dict(zip((name for name, _ in plain), arrays, strict=True)) if arrays else {}
        for name, tensor in named:
            array = together.get(name)
            if array is not None:
                hook.add(name, array)
            else:
                self.save(name, tensor)

    def _copied_together(self, tensors: Sequence[torch.Tensor]) -> list[np.ndarray] | None:
        """The values of plain tensors; None if each is to be copied by itself."""
        if len(tensors) < 2 or self._bytes_left is not None:
            return None
        try:
            with outside_of_modes():
                return self.slabs.copies(tensors)
        except Exception:  # noqa: BLE001 - which of them it is shows when each is copied by itself
            return None

    def copied(self, name: str, tensor: torch.Tensor) -> np.ndarray | None:
        """The tensor's value as an array of our own; None if there is none to be had."""
        if is_in_cuda_graph(tensor) or not self._has_room(tensor):
            return None
        try:
            with outside_of_modes():
                return copy_to_array(tensor)
        except Exception as error:  # noqa: BLE001 - one odd tensor must not cost the user all others
            what = "%s cannot be copied and is left out, as is any other that fails in this way: %s."
            self._guard.say_once(f"copy/{type(error).__name__}", what, name, describe(error))
            return None

    def save_activation(
        self, name: str, tensor: torch.Tensor, *, collection: str = "", collections: frozenset[str] = _NO_COLLECTIONS
    ) -> None:
        """As `save`, for what flows between modules: a tensor that holds no value is passed over in silence."""
        if holds_value(tensor):
            self.save(name, tensor, collection=collection, collections=collections)

    def _note_shard(self, name: str, tensor: torch.Tensor) -> None:
        if type(tensor) in PLAIN_TYPES or name in self.shards:
            return
        shard = shard_of(tensor)
        if shard is not None:
            self.shards[name] = shard

    def _has_room(self, tensor: torch.Tensor) -> bool:
        if self._bytes_left is None:
            return True
        self._bytes_left -= tensor.numel() * tensor.element_size()
        return self._bytes_left >= 0


@contextmanager
def outside_of_modes() -> Iterator[None]:
    """Hides what is done in here from dispatch modes: selective checkpointing would replay our copies as the user's."""
    if not torch._C._len_torch_dispatch_stack():
        yield
        return
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield
