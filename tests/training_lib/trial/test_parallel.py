"""Reads at the same time, where that helps."""

from __future__ import annotations

import threading

import pytest

from tests.patience import HANGS_SECONDS
from trackside.storage.memory import MemoryStore
from trackside.trial.parallel import READS_AHEAD, REMOTE_READS_AT_ONCE, each_in_parallel, in_parallel, is_remote


class Remote(MemoryStore):
    """Says that it lies in S3."""

    @property
    def uri(self) -> str:
        return "s3://bucket/run"


def test_a_remote_store_is_asked_several_things_at_once() -> None:
    together = threading.Barrier(REMOTE_READS_AT_ONCE, timeout=HANGS_SECONDS)

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


@pytest.mark.parametrize("store", [MemoryStore(), Remote()], ids=["local", "remote"])
def test_one_by_one_they_come_in_order(store: MemoryStore) -> None:
    items = range(5 * READS_AHEAD)
    assert [*each_in_parallel(store, lambda item: 2 * item, items)] == [2 * item for item in items]
    assert [*each_in_parallel(store, lambda item: item, [7])] == [7]
    assert [*each_in_parallel(store, lambda item: item, [])] == []


@pytest.mark.parametrize(
    ("store", "most"), [pytest.param(MemoryStore(), 1, id="local"), pytest.param(Remote(), READS_AHEAD, id="remote")]
)
def test_no_more_are_read_than_may_be_held(store: MemoryStore, most: int) -> None:
    begun: list[int] = []

    def read(item: int) -> int:
        begun.append(item)
        return item

    for taken, item in enumerate(each_in_parallel(store, read, range(200))):
        assert item == taken
        assert len(begun) <= taken + most + 1


@pytest.mark.parametrize("store", [MemoryStore(), Remote()], ids=["local", "remote"])
def test_an_error_ends_it(store: MemoryStore) -> None:
    with pytest.raises(ZeroDivisionError):
        [*each_in_parallel(store, lambda item: 1 // item, [1, 0, *range(100)])]
