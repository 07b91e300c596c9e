"""The part of a sharded tensor (DTensor: FSDP2, tensor parallelism) that this rank holds. Needs no other rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from trackside.records.shards import Shard


def shard_of(tensor: torch.Tensor) -> Shard | None:
    """Return this rank's part of `tensor`; None for one that is whole on every rank, or if this rank has nothing of it.

    Each mesh dimension with `Shard(d)` cuts the part that the dimensions before it left, as `torch.chunk` cuts. FSDP2's
    strided shards under tensor parallelism are cut after those. For another placement (a sum that is still to be made)
    the part is no rectangle, and its placement is noted instead.
    """
    placements = getattr(tensor, "placements", None)
    if placements is None or all(placement.is_replicate() for placement in placements):
        return None
    value: Any = tensor  # a DTensor; its class is not worth its import here
    coordinate = value.device_mesh.get_coordinate()
    if coordinate is None:
        return None
    parts = list(zip(placements, coordinate, value.device_mesh.shape, strict=True))
    rectangle = _rectangle(tuple(tensor.shape), _in_order_of_cuts(parts))
    if rectangle is None or rectangle.size != tuple(value.to_local().shape):
        placement = ", ".join(map(repr, placements))
        return Shard(tuple(tensor.shape), (0,) * tensor.dim(), placement=placement)
    return Shard(tuple(tensor.shape), rectangle.offset)


class _Rectangle(NamedTuple):
    offset: tuple[int, ...]
    size: tuple[int, ...]


_Part = tuple[Any, int, int]  # a placement, this rank's place along its dimension of the mesh, and how many there are


def _in_order_of_cuts(parts: Sequence[_Part]) -> list[_Part] | None:
    """Return the parts in the order of their cuts; None if that is unknown.

    `_StridedShard(d, split_factor=n)` cut the n parts that plain shards of the same dimension, later in the mesh, had
    made.
    """
    strided = [i for i, (placement, _, _) in enumerate(parts) if type(placement).__name__ == "_StridedShard"]
    for i in strided:
        placement = parts[i][0]
        same = [j for j, (other, _, _) in enumerate(parts) if j != i and getattr(other, "dim", None) == placement.dim]
        is_last_cut = all(j > i and j not in strided for j in same)
        if not is_last_cut or math.prod(parts[j][2] for j in same) != placement.split_factor:
            return None
    return [part for i, part in enumerate(parts) if i not in strided] + [parts[i] for i in strided]


def _rectangle(shape: tuple[int, ...], parts: Sequence[_Part] | None) -> _Rectangle | None:
    """Return the part; None if a placement is neither a shard nor a replica."""
    offset, size = [0] * len(shape), list(shape)
    for placement, place, count in parts or ():
        if placement.is_replicate():
            continue
        if type(placement).__name__ not in {"Shard", "_StridedShard"}:
            return None
        dimension = placement.dim % len(shape)
        step = -(-size[dimension] // count)
        start = min(place * step, size[dimension])
        offset[dimension] += start
        size[dimension] = min(step, size[dimension] - start)
    return _Rectangle(tuple(offset), tuple(size)) if parts is not None else None
