"""The part of a sharded tensor that each worker saves, in `_meta` of its collections file, which smdebug ignores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trackside.records.untrusted_json import UntrustedJson

SHARDS = "shards"  # in `_meta`
MOST_DIMENSIONS = 64  # as NumPy


@dataclass(frozen=True)
class Shard:
    """The place of a worker's part in a sharded tensor.

    shape      of the whole tensor
    offset     of the part's first element in it; without meaning if `placement` is set
    is_flat    True: the part is a piece of all elements in a row (C order), and `offset` counts in it, as in FSDP1
    placement  PyTorch's text for the tensor's place on the ranks, if the part is no box of the whole: such parts cannot
               be put together; else ""
    """

    shape: tuple[int, ...]
    offset: tuple[int, ...]
    is_flat: bool = False
    placement: str = ""


def shards_document(shards: Mapping[str, Shard]) -> dict[str, Any]:
    """Return the JSON values of `_meta.shards`, by tensor name."""
    return {name: _document(shard) for name, shard in sorted(shards.items())}


def decode_shards(data: bytes, *, key: str) -> dict[str, Shard]:
    """Return the shards in a collections file, by tensor name; {} for a file of smdebug.

    Raises:
        RecordError: It is no collections file, or a part lies outside of its tensor.
    """
    document = UntrustedJson.parse(data, key=key)
    meta = document.object("_meta") if document.has("_meta") else None
    if meta is None or not meta.has(SHARDS):
        return {}
    shards = meta.object(SHARDS)
    return {name: _shard(shards.object(name)) for name in shards.names()}


def _document(shard: Shard) -> dict[str, Any]:
    document: dict[str, Any] = {"shape": list(shard.shape), "offset": list(shard.offset)}
    if shard.is_flat:
        document["flat"] = True
    if shard.placement:
        document["placement"] = shard.placement
    return document


def _shard(fields: UntrustedJson) -> Shard:
    is_flat = fields.boolean("flat", False)
    placement = fields.text("placement") if fields.has("placement") else ""
    shard = Shard(fields.counts("shape"), fields.counts("offset"), is_flat, placement)
    if is_flat:
        if len(shard.offset) != 1 or shard.offset[0] > math.prod(shard.shape):
            raise fields.error("lies outside of its tensor")
        return shard
    if len(shard.shape) != len(shard.offset) or len(shard.shape) > MOST_DIMENSIONS:
        raise fields.error(f"has {len(shard.offset)} offsets for {len(shard.shape)} dimensions")
    if any(start > size for start, size in zip(shard.offset, shard.shape, strict=True)):
        raise fields.error("lies outside of its tensor")
    return shard
