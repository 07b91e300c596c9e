"""Reads at the same time, where that helps."""

from __future__ import annotations

import threading

import pytest

from trackside.storage.memory import MemoryStore
from trackside.trial.parallel import REMOTE_READS_AT_ONCE, in_parallel, is_remote


class Remote(MemoryStore):
    """Says that it lies in S3."""

    @property
    def uri(self) -> str:
        return "s3://bucket/run"


def test_a_remote_store_is_asked_several_things_at_once() -> None:
    together = threading.Barrier(REMOTE_READS_AT_ONCE, timeout=30)

    def read(item: int) -> int:
        together.wait()
        return 2 * item

    items = range(2 * REMOTE_READS_AT_ONCE)
    assert in_parallel(Remote(), read, items) == [2 * item for item in items]


def test_a_local_store_is_asked_one_after_the_other() -> None:
    threads = in_parallel(MemoryStore(), lambda _: threading.get_ident(), range(5))
    assert threads == [threading.get_ident()] * 5


@pytest.mark.parametrize("store", [MemoryStore(), Remote()], ids=["local", "remote"])
def test_an_error_reaches_the_caller(store: MemoryStore) -> None:
    with pytest.raises(ZeroDivisionError):
        in_parallel(store, lambda item: 1 // item, [1, 0, 2])
    assert in_parallel(store, lambda item: item, []) == []


def test_which_stores_are_remote() -> None:
    assert is_remote(Remote())
    assert not is_remote(MemoryStore())
