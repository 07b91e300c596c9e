"""The parts of FSDP1 (`FullyShardedDataParallel`), which lays a module's parameters in one row and cuts that.

With `use_orig_params=True` each parameter has its name, and this rank's part of it is a piece of its elements in a row.
Without, the row is one parameter, `_flat_param`, and this rank has a piece of it. All of it is read from private
fields, which exist since PyTorch 2.1; without them, parts are saved without a note of their place.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.guard import Guard
from trackside.frameworks.pytorch.ground.live_objects import instances
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.records.shards import Shard

FLAT = "_flat_param"
_PREFIXES = ("", "gradient/", "raw_gradient/")


def flat_collection(name: str) -> str:
    """Return the collection of a parameter regardless of its name: a row of several is in "weights"."""
    return "weights" if name.endswith(FLAT) else ""


class FlatShards:
    """Notes of the part that this rank holds, in `shards`, by tensor name. Needs no other rank."""

    def __init__(self, names: ParameterNames, shards: dict[str, Shard], guard: Guard) -> None:
        self._names, self._shards, self._guard = names, shards, guard
        self._has_noted: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    def note(self, optimizer: Optimizer) -> None:
        """Note the parameters of an optimizer, their gradients and its state for them. Call it right after its step.

        Looks through all live objects, once for each optimizer, if FSDP1 has been imported.
        """
        if "torch.distributed.fsdp.fully_sharded_data_parallel" not in sys.modules or optimizer in self._has_noted:
            return
        if not torch.distributed.is_initialized():  # PyTorch imports FSDP1 with much else, with the first step
            return
        self._has_noted.add(optimizer)
        parts = {id(parameter): shard for parameter, shard in _parts()}
        for name, parameter in self._names.of(optimizer) if parts else ():
            shard = parts.get(id(parameter))
            if shard is not None:
                self._note(name, parameter, shard, optimizer.state.get(parameter) or {})

    def _note(self, name: str, parameter: torch.Tensor, shard: Shard, state: dict[Any, Any]) -> None:
        same = [key for key, value in state.items() if getattr(value, "shape", None) == parameter.shape]
        names = [f"{prefix}{name}" for prefix in _PREFIXES] + [f"optimizer/{name}/{key}" for key in same]
        self._shards.update(dict.fromkeys(names, shard))
        if name.endswith(FLAT):
            message = (
                "FullyShardedDataParallel has laid the parameters of a module in one row, which is saved as %s: "
                "nothing stands under their own names. With use_orig_params=True it does."
            )
            self._guard.warn_once("flat parameters", message, name)


def _parts() -> Iterator[tuple[torch.Tensor, Shard]]:
    """Return (parameter, this rank's part of it) for all that FSDP1 has cut in this process."""
    for module in instances(torch.nn.Module):
        if type(module).__name__ != "FullyShardedDataParallel":
            continue
        handle = module.__dict__.get("_handle")
        flat = getattr(handle, "flat_param", None)
        try:
            if flat is not None:
                yield from _parts_of(handle, flat)
        except (AttributeError, TypeError, ValueError):  # this PyTorch has other fields
            continue


def _parts_of(handle: Any, flat: Any) -> Iterator[tuple[torch.Tensor, Shard]]:
    size = int(flat._sharded_size.numel())
    if size < flat._unpadded_unsharded_size.numel():  # else every rank has all
        yield flat, Shard((size * int(handle.world_size),), (size * int(handle.rank),), is_flat=True)
    infos = zip(flat._params or (), flat._shapes, flat._shard_param_infos, strict=False)
    for parameter, shape, info in infos:
        if info.in_shard and parameter.dim() == 1 and parameter.numel() == info.numel_in_shard < shape.numel():
            yield parameter, Shard(tuple(shape), (int(info.intra_param_start_idx),), is_flat=True)
        elif info.in_shard and parameter.dim() == 1 and parameter.numel() == shape.numel():
            yield parameter, Shard(tuple(shape), (0,), is_flat=True)  # all of it, as a row
