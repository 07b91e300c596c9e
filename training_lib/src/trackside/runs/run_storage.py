"""The room that a run takes, and the time that it trained, from a listing of its objects: none of them is read."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from trackside.contracts.run_layout import END_MARKER_KEY, STATISTICS, TENSORS, SegmentName
from trackside.storage.store import Store, objects_of

MOST_LISTED = 10_000  # objects of a run: ten requests in S3


@dataclass(frozen=True)
class RunStorage:
    """The objects of a run.

    size_bytes   their bytes
    objects      their number
    is_whole     False if only the first `MOST_LISTED` were counted
    started_at   start of the first process that recorded statistics, in seconds since the epoch; None if unknown
    ended_at     the moment at which its end was stored; None if it was not, or not among those that were counted
    """

    size_bytes: int
    objects: int
    is_whole: bool
    started_at: float | None
    ended_at: float | None


def run_storage(store: Store) -> RunStorage | None:
    """Return what a listing of a run's store shows; None for a store that lists keys without sizes.

    Args:
        store: The store at the run's location.

    Raises:
        StorageError: The store cannot be listed.
    """
    found = objects_of(store)
    if found is None:
        return None
    size = count = 0
    started: list[float] = []
    ended_at = None
    for one in itertools.islice(found, MOST_LISTED):
        size, count = size + one.size_bytes, count + 1
        if one.key == f"{TENSORS}/{END_MARKER_KEY}":
            ended_at = one.stored_at
        folder, _, rest = one.key.partition("/")
        if folder == STATISTICS and (segment := SegmentName.parse(rest)) is not None:
            started.append(segment.started_ms / 1000)
    return RunStorage(size, count, next(found, None) is None, min(started, default=None), ended_at)
