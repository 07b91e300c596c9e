"""Which part of a sharded tensor (DTensor: FSDP2, tensor parallelism) this rank holds. Asks no other rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from trackside.records.shards import Shard


def shard_of(tensor: torch.Tensor) -> Shard | None:
    """This rank's part of `tensor`; None for one that is not sharded, or in a way that has no one rectangle.

    Each mesh dimension with `Shard(d)` cuts the part that the dimensions before it left, as `torch.chunk` cuts. Of
    another placement (a sum that is still to be made, FSDP2's strided shards under tensor parallelism) there is none.
    """
    placements = getattr(tensor, "placements", None)
    if placements is None or all(placement.is_replicate() for placement in placements):
        return None
    value: Any = tensor  # a DTensor, whose class is not worth its import here
    coordinate = value.device_mesh.get_coordinate()
    if coordinate is None:
        return None
    parts = zip(placements, coordinate, value.device_mesh.shape, strict=True)
    rectangle = _rectangle(tuple(tensor.shape), parts)
    if rectangle is None or rectangle.size != tuple(value.to_local().shape):
        return None
    return Shard(tuple(tensor.shape), rectangle.offset)


class _Rectangle(NamedTuple):
    offset: tuple[int, ...]
    size: tuple[int, ...]


def _rectangle(shape: tuple[int, ...], parts: Iterable[tuple[Any, int, int]]) -> _Rectangle | None:
    """The part; None where a placement is neither a plain shard nor a replica."""
    offset, size = [0] * len(shape), list(shape)
    for placement, place, count in parts:
        if placement.is_replicate():
            continue
        if type(placement).__name__ != "Shard":
            return None
        dimension = placement.dim % len(shape)
        step = -(-size[dimension] // count)
        start = min(place * step, size[dimension])
        offset[dimension] += start
        size[dimension] = min(step, size[dimension] - start)
    return _Rectangle(tuple(offset), tuple(size))
