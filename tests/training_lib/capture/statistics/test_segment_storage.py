"""Small objects become middle ones, and these large ones: puts before deletes, and a bounded memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training_lib.capture.object_store import GrowingStore, ObjectStore
from trackside.capture.statistics.segment_storage import (
    CompactedObjects,
    GrowingSegments,
    RowsBlock,
    SegmentLimits,
    SegmentLog,
    segment_storage,
)
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run_layout import SegmentName
from trackside.records.block_file import encode_block, read_blocks
from trackside.records.statistics_segment import ROWS_KIND, SCHEMA_KIND

STARTED = 1_763_700_000_000


def log() -> SegmentLog:
    found = SegmentLog("worker_0", STARTED)
    found.schemas = {0: b"first schema", 1: b"second schema"}
    return found


def block(number: int, *, schema_id: int = 0, size: int = 100) -> RowsBlock:
    return RowsBlock(number, schema_id, 1, encode_block(ROWS_KIND, bytes(size), number=number))


def spans(store: Any) -> list[tuple[int, int]]:
    names = [SegmentName.parse(key) for key in store.inner.list()]
    return sorted((name.first, name.last or 0) for name in names if name is not None)


def test_takes_what_suits_the_store() -> None:
    assert isinstance(segment_storage(ObjectStore(), log(), SegmentLimits()), CompactedObjects)
    assert isinstance(segment_storage(GrowingStore(), log(), SegmentLimits()), GrowingSegments)


def compacted(store: ObjectStore, **limits: int) -> CompactedObjects:
    return CompactedObjects(store, log(), SegmentLimits(**{"objects": 3, "deletes_a_flush": 100, **limits}))


def test_three_small_ones_become_a_middle_one_and_three_of_these_a_large_one() -> None:
    store = ObjectStore()
    storage = compacted(store)
    seen = []
    for number in range(10):
        storage.save([block(number)])
        storage.tend()
        seen.append(spans(store))
    assert seen[1] == [(0, 0), (1, 1)]
    assert seen[2] == [(0, 2)]
    assert seen[6] == [(0, 2), (3, 5), (6, 6)]
    assert seen[8] == [(0, 8)]
    assert seen[9] == [(0, 8), (9, 9)]


def test_sizes_merge_before_numbers_do() -> None:
    store = ObjectStore()
    storage = compacted(store, objects=100, middle_bytes=400, large_bytes=1200)
    for number in range(30):
        storage.save([block(number, size=150)])
        storage.tend()
    assert {last - first + 1 for first, last in spans(store)[:-1]} <= {3, 9}


def test_an_object_that_is_large_from_the_start_is_not_put_again() -> None:
    store = ObjectStore()
    storage = compacted(store, middle_bytes=400, large_bytes=1200)
    for number in range(5):
        storage.save([block(number, size=5000)])
        storage.tend()
    assert store.requests == {"put": 5}
    assert storage.kept_bytes == 0


def test_each_object_begins_with_a_header_and_the_schemas_of_its_rows() -> None:
    store = ObjectStore()
    storage = compacted(store)
    for number in range(5):
        storage.save([block(number, schema_id=int(number > 1))])
        storage.tend()
    kinds = {}
    for key in store.inner.list():
        found = read_blocks(store.inner.get(key), key=key).blocks
        kinds[key[-13:-4]] = [(b.kind, b.number, b.payload if b.kind == SCHEMA_KIND else b"") for b in found]
    first, second = (SCHEMA_KIND, 0, b"first schema"), (SCHEMA_KIND, 0, b"second schema")
    assert [kind[:2] for kind in kinds["000000002"]] == [(0, 0), (1, 0), (1, 0), (2, 0), (2, 1), (2, 2)]
    assert kinds["000000002"][1:3] == [first, second]
    assert kinds["000000003"][1] == (SCHEMA_KIND, 3, b"second schema")


def test_the_larger_one_is_put_before_the_others_are_deleted() -> None:
    store = ObjectStore()
    order: list[str] = []
    store.before = lambda operation, _key: order.append(operation)
    storage = compacted(store)
    for number in range(3):
        storage.save([block(number)])
        storage.tend()
    assert order == ["put"] * 4 + ["delete"] * 3


def test_deletes_are_spread_over_the_flushes() -> None:
    store = ObjectStore()
    storage = compacted(store, objects=8, deletes_a_flush=2)
    most = 0
    for number in range(200):
        storage.save([block(number)])
        store.requests.clear()
        storage.tend()
        assert store.requests["delete"] <= 2
        most = max(most, len(spans(store)))
    assert most < 30
    storage.finish()
    assert spans(store) == [(0, 63), (64, 127), (128, 191), (192, 199)]


def test_what_arrived_although_it_failed_is_deleted_unless_it_was_put_again() -> None:
    store = ObjectStore()
    storage = compacted(store)

    def lost(number: int, *more: int) -> None:
        store.fails, store.arrives = lambda operation, _key: operation == "put", True
        with pytest.raises(StorageUnavailableError):
            storage.save([block(n) for n in (number, *more)])
        store.fails = lambda _operation, _key: False

    lost(0)
    storage.save([block(0)])  # under the same name
    lost(1)
    storage.save([block(1), block(2)])  # under another
    assert spans(store) == [(0, 0), (1, 1), (1, 2)]
    storage.tend()
    assert spans(store) == [(0, 0), (1, 2)]


def test_what_could_not_be_deleted_is_deleted_later() -> None:
    store = ObjectStore()
    storage = compacted(store)
    store.fails = lambda operation, _key: operation == "delete"
    for number in range(3):
        storage.save([block(number)])
    with pytest.raises(StorageUnavailableError):
        storage.tend()
    assert spans(store) == [(0, 0), (0, 2), (1, 1), (2, 2)]
    store.fails = lambda _operation, _key: False
    storage.tend()
    assert spans(store) == [(0, 2)]


def test_finishing_twice_asks_nothing_more() -> None:
    store = ObjectStore()
    storage = compacted(store)
    storage.save([block(0)])
    storage.save([block(1)])
    storage.finish()
    store.requests.clear()
    storage.finish()
    assert not store.requests
    assert spans(store) == [(0, 1)]
