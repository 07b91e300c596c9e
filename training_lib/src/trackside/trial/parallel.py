"""Several reads at the same time, where each of them waits for a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from trackside.storage.store import Store

REMOTE_READS_AT_ONCE = 16

T = TypeVar("T")
R = TypeVar("R")


def is_remote(store: Store) -> bool:
    """True if every question to the store is a request to another machine."""
    return "://" in store.uri


def in_parallel(store: Store, read: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`read` of each item, in order; at the same time where each read waits for a network."""
    if len(items) < 2 or not is_remote(store):
        return [read(item) for item in items]
    with ThreadPoolExecutor(min(REMOTE_READS_AT_ONCE, len(items))) as pool:
        return list(pool.map(read, items))
