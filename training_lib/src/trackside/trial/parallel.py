"""Several reads at the same time, for stores behind a network."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from trackside.storage.store import Store

if TYPE_CHECKING:
    from concurrent.futures import Future

REMOTE_READS_AT_ONCE = 16
READS_AHEAD = 32  # results that are fetched and not taken yet are held in memory

T = TypeVar("T")
R = TypeVar("R")


def is_remote(store: Store) -> bool:
    """Return True if every call of the store is a request to another machine."""
    return "://" in store.uri


def in_parallel(store: Store, read: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the result of `read` for each item, in order. Reads from a remote store run at the same time."""
    if len(items) < 2 or not is_remote(store):
        return [read(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor  # brings `multiprocessing`'s queues; a folder needs none

    with ThreadPoolExecutor(min(REMOTE_READS_AT_ONCE, len(items))) as pool:
        return list(pool.map(read, items))


def each_in_parallel(store: Store, read: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield the result of `read` for each item, in order.

    Reads from a remote store run ahead, at most `READS_AHEAD`.
    """
    if len(items) < 2 or not is_remote(store):
        yield from map(read, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(REMOTE_READS_AT_ONCE, len(items))) as pool:
        ahead: deque[Future[R]] = deque()
        try:
            for item in items:
                if len(ahead) >= READS_AHEAD:
                    yield ahead.popleft().result()
                ahead.append(pool.submit(read, item))
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:  # their results are not needed after an error
                future.cancel()
