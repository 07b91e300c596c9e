"""Which part of a sharded tensor each worker saves: noted in `_meta` of its collections file, which smdebug lets be."""

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
    """Where a worker's part lies: `shape` of the whole tensor, `offset` of the part's first element in it.

    With `is_flat` the part is a piece of all elements in a row (C order), and `offset` counts there: FSDP1 cuts so.
    With a `placement`, PyTorch's words for how the tensor lies on the ranks, the part is no box of the whole, and parts
    cannot be put together; `offset` says nothing then.
    """

    shape: tuple[int, ...]
    offset: tuple[int, ...]
    is_flat: bool = False
    placement: str = ""


def shards_document(shards: Mapping[str, Shard]) -> dict[str, Any]:
    """The JSON values of `_meta.shards`, by tensor name."""
    return {name: _document(shard) for name, shard in sorted(shards.items())}


def decode_shards(data: bytes, *, key: str) -> dict[str, Shard]:
    """The shards that a collections file notes, by tensor name; none in a file of smdebug.

    Errors: `RecordError` if it is no collections file, or a part lies outside of its tensor.
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
