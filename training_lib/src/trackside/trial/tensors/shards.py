"""Assembly of sharded tensors: each worker saved its part, and noted its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import ConfigurationError, KeyNotFoundError, Problem, RecordError
from trackside.contracts.run_layout import collections_key
from trackside.records.shards import Shard, decode_shards
from trackside.records.untrusted_json import MOST_JSON_BYTES
from trackside.storage.store import Store


class Shards:
    """The shard notes of all workers. A worker's note is read on the first request, and again for a new name."""

    def __init__(self, store: Store, *, report: Callable[[RecordError], None]) -> None:
        self._store, self._report = store, report
        self._notes: dict[str, Mapping[str, Shard]] = {}
        self._read_at: dict[str, object] = {}

    def of(self, name: str, *, worker: str, version: object) -> Shard | None:
        """Return the place of a worker's part of the tensor; None if the tensor is not sharded.

        `version` is the trial's. Errors: those of the store.
        """
        found = self._notes.get(worker, {}).get(name)
        if found is None and (worker not in self._read_at or self._read_at[worker] != version):
            self._notes[worker] = self._read(collections_key(worker))
            self._read_at[worker] = version
            found = self._notes[worker].get(name)
        return found

    def _read(self, key: str) -> Mapping[str, Shard]:
        try:
            return decode_shards(self._store.get(key, length=MOST_JSON_BYTES + 1), key=key)
        except KeyNotFoundError:
            return {}
        except RecordError as error:
            self._report(error)
            return {}


def joined(name: str, parts: Sequence[tuple[Shard, NDArray[np.generic]]]) -> NDArray[np.generic]:
    """Return the whole tensor, from its parts. Replicas may overlap.

    Errors: `ConfigurationError` if parts are missing, or do not fit one tensor.
    """
    placement = next((shard.placement for shard, _ in parts if shard.placement), "")
    if placement:
        raise _incomplete(name, f"its parts ({placement}) cannot be put together without the ranks")
    shape, dtype = parts[0][0].shape, parts[0][1].dtype
    boxes = [_box(shard, part) for shard, part in parts if (shard.shape, part.dtype) == (shape, dtype)]
    if len(boxes) < len(parts) or None in boxes:
        raise _incomplete(name, "the parts that were saved do not fit one tensor")
    total, saved = math.prod(shape), sum(part.size for _, part in parts)
    if saved < total:  # before anything of the noted size is made
        raise _incomplete(name, f"{saved} of {total} elements were saved")
    whole, is_saved = np.zeros(shape, dtype), np.zeros(shape, np.bool_)
    for box, (shard, part) in zip(boxes, parts, strict=True):
        place = (whole.reshape(-1), is_saved.reshape(-1)) if shard.is_flat else (whole, is_saved)  # the same memory
        place[0][box], place[1][box] = part, True
    if not is_saved.all():
        raise _incomplete(name, f"{np.count_nonzero(is_saved)} of {total} elements were saved")
    return whole


def _box(shard: Shard, part: NDArray[np.generic]) -> tuple[slice, ...] | None:
    """Return the part's place in the whole; None if it does not fit."""
    shape = (math.prod(shard.shape),) if shard.is_flat else shard.shape
    ends = [start + size for start, size in zip(shard.offset, part.shape, strict=False)]
    if part.ndim != len(shape) or any(end > size for end, size in zip(ends, shape, strict=True)):
        return None
    return tuple(slice(start, end) for start, end in zip(shard.offset, ends, strict=True))


def _incomplete(name: str, what: str) -> ConfigurationError:
    fix = "Choose a worker to see the part that it saved."
    return ConfigurationError([Problem(name, f"is sharded, and {what}.", fix)], subject="The tensor")
