"""From a tensor of the user's to a tensor of the open step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from trackside.capture.guard import Guard, describe
from trackside.capture.hook import Hook
from trackside.frameworks.pytorch.copying import copy_to_array, is_in_cuda_graph
from trackside.frameworks.pytorch.sharding import shard_of
from trackside.frameworks.pytorch.structures import holds_value
from trackside.records.shards import Shard

# Before the first optimizer's step nobody knows whether this process will ever train.
MOST_BYTES_BEFORE_TRAINING = 256 * 2**20


class TensorSaver:
    """Copies what the open step wants. A tensor that cannot be copied costs only itself, and is said once."""

    def __init__(self, hook: Hook, guard: Guard) -> None:
        self._hook = hook
        self._guard = guard
        self._bytes_left: int | None = MOST_BYTES_BEFORE_TRAINING
        self.shards: dict[str, Shard] = {}  # which part of a sharded tensor this rank holds, by name

    def training_began(self) -> None:
        """From now on the queue of the writer bounds the memory."""
        self._bytes_left = None

    def save(self, name: str, tensor: torch.Tensor, *, collection: str = "", scale: float = 1.0) -> None:
        """Adds the tensor's value, divided by `scale`, if the open step wants it; `collection` is one it belongs to."""
        collections = frozenset({collection}) if collection else frozenset()
        if not self._hook.wants(name, collections=collections):
            return
        array = self.copied(name, tensor)
        if array is not None:
            value = array if scale == 1 else np.asarray(array / scale, array.dtype)
            self._hook.add(name, value, collections=collections)
            self._note_shard(name, tensor)

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

    def save_activation(self, name: str, tensor: torch.Tensor, *, collection: str) -> None:
        """As `save`, for what flows between modules: a tensor that holds no value is passed over in silence."""
        if holds_value(tensor):
            self.save(name, tensor, collection=collection)

    def _note_shard(self, name: str, tensor: torch.Tensor) -> None:
        shard = shard_of(tensor) if name not in self.shards else None
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
