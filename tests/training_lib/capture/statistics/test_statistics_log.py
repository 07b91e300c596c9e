"""The log of statistics: cheap to write to, bounded, and honest about what a failing store cost."""

from __future__ import annotations

import gc
import threading
import time
import timeit
import tracemalloc
from typing import Any

import numpy as np
import pytest

from tests.training_lib.capture.object_store import Clock, GrowingStore, ObjectStore
from tests.training_lib.records.schema_blocks import read_schema
from trackside.capture.statistics.segment_storage import SegmentLimits
from trackside.capture.statistics.statistics_log import LogLimits, StatisticsLog, StatisticsTable
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run_layout import SegmentName
from trackside.records.block_file import read_blocks
from trackside.records.statistics_segment import (
    ROWS_KIND,
    SCHEMA_KIND,
    Schema,
    StatisticColumn,
    column_of,
    read_rows,
)
from trackside.storage.memory import MemoryStore

STARTED = 1_763_700_000_000
PAIR = Schema((StatisticColumn("Loss_output_0", "mean"), StatisticColumn("gradient/Net_a.weight", "l2")))


def opened(store: Any, *, clock: Clock | None = None, **limits: Any) -> StatisticsLog:
    return StatisticsLog(
        store, worker="worker_0", started_ms=STARTED, limits=LogLimits(**limits), monotonic=clock or Clock()
    )


def take(table: StatisticsTable, step: int, values: Any = (1.0, 2.0), **more: Any) -> None:
    mode = more.pop("mode", "TRAIN")
    table.record(np.array(values, np.float32), step=step, mode=mode, mode_step=step, wall_time=step + 0.5, **more)


def contents(store: Any) -> dict[int, dict[int, dict[tuple[str, str], float]]]:
    """What lies in the store, read without our reader: block number -> step -> (tensor, statistic) -> value."""
    found: dict[int, dict[int, dict[tuple[str, str], float]]] = {}
    for key in store.inner.list():
        name = SegmentName.parse(key)
        assert name is not None
        schemas: dict[int, Schema] = {}
        blocks = read_blocks(store.inner.get(key), key=key).blocks
        assert blocks[0].kind == 0
        numbers = [block.number for block in blocks if block.kind == ROWS_KIND]
        assert numbers == sorted(numbers)
        assert numbers[0] == name.first
        assert name.last in {None, numbers[-1]}
        for block in blocks:
            if block.kind == SCHEMA_KIND:
                schemas.update([read_schema(block, key=key)])
            elif block.kind == ROWS_KIND:
                found[block.number] = rows_of(block, schemas)
    return found


def rows_of(block: Any, schemas: dict[int, Schema]) -> dict[int, dict[tuple[str, str], float]]:
    head = read_rows(block, key="k")
    schema = schemas[head.schema_id]
    rows = np.frombuffer(head.body, schema.dtype(has_holes=head.has_holes))
    found: dict[int, dict[tuple[str, str], float]] = {int(step): {} for step in rows["step"]}
    for column, place in schema.positions.items():
        values, measured = column_of(rows, schema, place)
        for row, step in enumerate(rows["step"].tolist()):
            if measured is None or measured[row]:
                found[step][column] = float(values[row])
    return found


def steps_in(store: Any) -> list[int]:
    return sorted(step for rows in contents(store).values() for step in rows)


@pytest.mark.parametrize("store", [ObjectStore(), GrowingStore()], ids=["objects", "a file"])
def test_what_is_recorded_lies_there_after_a_flush(store: Any) -> None:
    log = opened(store)
    table = log.open_table(PAIR)
    take(table, 3, (0.5, 7.0))
    take(table, 4, (0.25, np.nan), mode="EVAL")
    take(table, 5, (0.125, 1.0), measured=np.array([True, False]))
    assert list(store.inner.list()) == []
    log.flush()
    loss, norm = PAIR.positions
    np.testing.assert_equal(
        contents(store),
        {0: {3: {loss: 0.5, norm: 7.0}, 4: {loss: 0.25, norm: np.nan}, 5: {loss: 0.125}}},
    )


def test_an_idle_flush_asks_nothing_of_the_store() -> None:
    store = ObjectStore()
    log = opened(store)
    log.open_table(PAIR)
    log.flush()
    log.close()
    assert not store.requests


def test_two_tiers_are_two_tables() -> None:
    store = ObjectStore()
    log = opened(store)
    often, seldom = log.open_table(PAIR), log.open_table(Schema((StatisticColumn("Net_a.weight", "update_ratio"),)))
    for step in range(6):
        take(often, step)
        if step % 3 == 0:
            take(seldom, step, (9.0,))
    log.flush()
    found = contents(store)
    assert [sorted(found[number]) for number in sorted(found)] == [[0, 1, 2, 3, 4, 5], [0, 3]]


@pytest.mark.parametrize(
    ("values", "more", "what"),
    [
        pytest.param(np.zeros(3), {}, "has 2 values", id="too many"),
        pytest.param(np.zeros(1), {}, "has 2 values", id="one, which would be spread"),
        pytest.param(np.zeros((1, 2)), {}, "has 2 values", id="of two dimensions"),
        pytest.param(np.zeros(2), {"measured": np.ones(1, bool)}, "has 2 values", id="too few measured"),
        pytest.param(np.zeros(2), {"mode": "train"}, "not a mode", id="no mode"),
    ],
)
def test_refuses_what_is_no_row(values: Any, more: dict[str, Any], what: str) -> None:
    store = ObjectStore()
    log = opened(store)
    table = log.open_table(PAIR)
    with pytest.raises(ValueError, match=what):
        table.record(values, **{"step": 0, "mode": "TRAIN", "mode_step": 0, "wall_time": 0.0, **more})
    log.flush()
    assert not store.requests


def test_the_values_are_copied() -> None:
    store = ObjectStore()
    log = opened(store)
    table = log.open_table(PAIR)
    values = np.array([1, 2], np.float32)
    for step in range(3):
        values[:] = step
        table.record(values, step=step, mode="TRAIN", mode_step=step, wall_time=0.0)
    values[:] = 99
    log.flush()
    assert [rows[("Loss_output_0", "mean")] for rows in contents(store)[0].values()] == [0, 1, 2]


def test_double_precision_is_kept_where_the_schema_asks_for_it_and_brought_into_range_elsewhere() -> None:
    store = ObjectStore()
    log = opened(store)
    wide = log.open_table(Schema((StatisticColumn("loss", "mean", "f8"), StatisticColumn("a", "l2", "f4"))))
    narrow = log.open_table(Schema((StatisticColumn("b", "l2", "f4"),)))
    for table, values in ((wide, [0.1, 1e300]), (narrow, [-1e300])):
        table.record(np.array(values), step=1, mode="TRAIN", mode_step=1, wall_time=0.0)
    log.flush()
    largest = float(np.finfo(np.float32).max)
    assert contents(store) == {0: {1: {("loss", "mean"): 0.1, ("a", "l2"): largest}}, 1: {1: {("b", "l2"): -largest}}}


class TestMixedRows:
    """`StatisticsLog.record`: a few numbers by name, not the same at every step."""

    def record(self, log: StatisticsLog, step: int, **values: float) -> None:
        named = {(name, "mean"): value for name, value in values.items()}
        log.record(named, step=step, mode="TRAIN", mode_step=step, wall_time=0.0)

    def test_what_is_absent_was_not_measured(self) -> None:
        store = ObjectStore()
        log = opened(store)
        self.record(log, 0, loss=0.1)
        self.record(log, 1, loss=0.2, accuracy=0.5)
        self.record(log, 2, accuracy=float("nan"))
        self.record(log, 3)
        log.flush()
        merged = {step: row for rows in contents(store).values() for step, row in rows.items()}
        np.testing.assert_equal(
            merged,
            {
                0: {("loss", "mean"): 0.1},
                1: {("loss", "mean"): 0.2, ("accuracy", "mean"): 0.5},
                2: {("accuracy", "mean"): np.nan},
            },
        )

    def test_a_thousand_names_cost_no_thousand_tables(self) -> None:
        log = opened(ObjectStore())
        for number in range(300):
            self.record(log, number, **{f"scalar_{number}": 1.0})
            if number % 10 == 9:
                log.flush()
                assert len(log._tables) <= 1


class TestWhenItIsDue:
    def test_once_a_second(self) -> None:
        store, clock = ObjectStore(), Clock()
        log = opened(store, clock=clock)
        table = log.open_table(PAIR)
        flushed = []
        for tenth in range(31):
            clock.now = 1000 + tenth / 10
            take(table, tenth)
            flushed.append(log.flush_if_due())
        assert [place for place, was in enumerate(flushed) if was] == [10, 20, 30]
        assert steps_in(store) == list(range(31))

    def test_tells_how_long_one_may_sleep(self) -> None:
        clock = Clock()
        log = opened(ObjectStore(), clock=clock, flush_seconds=4.0)
        assert log.due_in_seconds == 4.0
        clock.now += 5
        assert log.due_in_seconds == 0.0

    def test_the_interval_may_be_changed_on_the_way(self) -> None:
        clock = Clock()
        log = opened(ObjectStore(), clock=clock)
        log.flush_seconds = 10.0
        log.flush()
        assert log.due_in_seconds == 10.0

    def test_after_failures_it_waits_longer_and_longer(self) -> None:
        store, clock = ObjectStore(), Clock()
        log = opened(store, clock=clock)
        table = log.open_table(PAIR)
        take(table, 0)
        store.fails = lambda _operation, _key: True
        waits = []
        for _ in range(9):
            clock.now += log.due_in_seconds
            with pytest.raises(StorageUnavailableError):
                log.flush_if_due()
            waits.append(log.due_in_seconds)
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        store.fails = lambda _operation, _key: False
        clock.now += 60
        assert log.flush_if_due()
        assert log.due_in_seconds == 1.0
        assert steps_in(store) == [0]


class TestWhenStoringFails:
    @pytest.mark.parametrize("arrives", [False, True], ids=["nothing arrived", "only the answer was lost"])
    @pytest.mark.parametrize("kind", [ObjectStore, GrowingStore])
    def test_at_every_single_request_nothing_is_lost_or_doubled(self, kind: Any, arrives: bool) -> None:
        """The n-th request fails, for every n; the run goes on."""
        n = 0
        while True:
            store = kind()
            store.arrives = arrives
            count = iter(range(10**9))
            store.fails = lambda operation, _key, count=count, n=n: operation != "list" and next(count) == n
            log = opened(store, segments=SegmentLimits(objects=3, file_bytes=600, schemas_every_bytes=300))
            table = log.open_table(PAIR)
            failed = 0
            for step in range(20):
                take(table, step)
                try:
                    log.flush()
                except StorageUnavailableError:
                    failed += 1
            log.close()
            assert steps_in(store) == list(range(20))
            assert log.dropped_rows == 0
            assert failed <= 1
            if next(count) <= n:
                break
            n += 1
        assert n > 15

    def test_a_torn_append_is_passed_over(self) -> None:
        store = GrowingStore()
        log = opened(store)
        table = log.open_table(PAIR)
        for step in range(8):
            take(table, step)
            store.fails = lambda _operation, _key, step=step: step in {0, 3, 4}  # type: ignore[misc]
            store.torn_at = 10 * step + 5
            try:
                log.flush()
            except StorageUnavailableError:
                assert step in {0, 3, 4}
        (key,) = store.inner.list()
        blocks = read_blocks(store.inner.get(key), key=key)
        numbers = [block.number for block in blocks.blocks if block.kind == ROWS_KIND]
        assert sorted(set(numbers)) == list(range(len(set(numbers))))
        stored: set[int] = set()
        schemas = dict(read_schema(block, key=key) for block in blocks.blocks if block.kind == SCHEMA_KIND)
        for block in blocks.blocks:
            if block.kind == ROWS_KIND:
                stored |= set(rows_of(block, schemas))
        assert stored == set(range(8))

    def test_what_waits_is_bounded_and_what_is_dropped_leaves_a_gap_in_the_numbers(self) -> None:
        store = ObjectStore()
        log = opened(store, pending_bytes=2000)
        table = log.open_table(PAIR)
        store.fails = lambda _operation, _key: True
        for step in range(200):
            take(table, step)
            with pytest.raises(StorageUnavailableError):
                log.flush()
        assert sum(len(block.data) for block in log._pending) <= 2000
        store.fails = lambda _operation, _key: False
        log.flush()
        found = contents(store)
        assert steps_in(store) == list(range(log.dropped_rows, 200))
        assert min(found) == log.dropped_rows > 100
        assert max(found) == 199

    def test_what_waits_is_bounded_while_nobody_flushes(self) -> None:
        """The writer thread hangs in a request; training goes on, and so does its recording."""
        store = ObjectStore()
        log = opened(store, pending_bytes=1 << 20)
        wide = Schema(tuple(StatisticColumn(f"t{n}", "l2") for n in range(300)))
        table = log.open_table(wide)
        for step in range(5000):
            take(table, step, np.full(300, step))
        assert len(table._full) <= 4
        log.flush()
        stored = steps_in(store)
        assert log.dropped_rows == 5000 - len(stored) > 3000
        assert stored == list(range(log.dropped_rows, 5000))
        assert min(contents(store)) > 0

    def test_merging_that_fails_costs_no_row_and_no_memory(self) -> None:
        """Every put of a merged object fails; small ones are stored."""
        store = ObjectStore()
        store.fails = lambda operation, key: operation == "put" and span(key) > 0
        clock = Clock()
        limits = SegmentLimits(objects=4, middle_bytes=3000, large_bytes=9000)
        log = opened(store, clock=clock, segments=limits)
        table = log.open_table(PAIR)
        for step in range(300):
            take(table, step)
            clock.now += 100
            log.flush()
        assert isinstance(log.compaction_error, StorageUnavailableError)
        assert log._storage.kept_bytes < 20_000  # type: ignore[attr-defined]  # that of objects
        store.fails = lambda _operation, _key: False
        clock.now += 100
        log.close()
        assert log.compaction_error is None
        assert steps_in(store) == list(range(300))


def span(key: str) -> int:
    name = SegmentName.parse(key)
    assert name is not None
    assert name.last is not None
    return name.last - name.first


def test_a_row_of_300_values_costs_training_five_microseconds_at_most() -> None:
    """The best of many tries, for the machine may be busy; 1.6 us where it was written."""
    log = opened(ObjectStore())
    table = log.open_table(Schema(tuple(StatisticColumn(f"t{n}", "l2") for n in range(300))))
    values = np.random.default_rng(0).random(300, np.float32)
    measured = np.ones(300, bool)

    def plain() -> None:
        table.record(values, step=1, mode="TRAIN", mode_step=1, wall_time=1.0)

    def with_holes() -> None:
        table.record(values, step=1, mode="TRAIN", mode_step=1, wall_time=1.0, measured=measured)

    for record in (plain, with_holes):
        best = min(timeit.repeat(record, number=200, repeat=50)) / 200
        assert best <= 5e-6


def test_recording_and_flushing_at_the_same_time_loses_nothing_and_keeps_the_order() -> None:
    store = ObjectStore()
    log = opened(store)
    table = log.open_table(Schema(tuple(StatisticColumn(f"t{n}", "l2") for n in range(20))))
    steps = 30_000
    is_done = threading.Event()

    def flushing() -> None:
        while not is_done.is_set():
            log.flush()
            time.sleep(0)

    thread = threading.Thread(target=flushing)
    thread.start()
    values = np.empty(20, np.float32)
    for step in range(steps):
        values[:] = step
        table.record(values, step=step, mode="TRAIN", mode_step=step, wall_time=0.0)
    is_done.set()
    thread.join()
    log.close()
    found = contents(store)
    in_order = [(step, row["t7", "l2"]) for number in sorted(found) for step, row in found[number].items()]
    assert in_order == [(step, float(step)) for step in range(steps)]
    assert log.dropped_rows == 0


def test_memory_stays_flat_over_a_long_run() -> None:
    class Nowhere(ObjectStore):
        def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
            """Keeps nothing, so that what is counted is what the log keeps."""

    clock = Clock()
    limits = SegmentLimits(objects=6, middle_bytes=20_000, large_bytes=100_000)
    log = opened(Nowhere(), clock=clock, segments=limits)
    table = log.open_table(Schema(tuple(StatisticColumn(f"t{n}", "l2") for n in range(512))))  # 128 rows a chunk
    row = np.zeros(512, np.float32)

    def run(first: int) -> int:
        for step in range(first, first + 3 * 128 * 3):
            take(table, step, row)
            clock.now += 1
            log.flush_if_due()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = run(0)
        assert run(3 * 128 * 3) < before + 20_000
    finally:
        tracemalloc.stop()


def test_twenty_hours_on_s3_are_some_hundreds_of_objects() -> None:
    """Ten steps a second of 156 tensors; docs/formats/statistics-segment.md has the price.

    A tenth of the bytes with limits of a tenth: the same objects, in less time.
    """
    store, clock = ObjectStore(), Clock()
    bytes_a_second, limits = 7440, SegmentLimits()
    tenth = SegmentLimits(middle_bytes=limits.middle_bytes // 10, large_bytes=limits.large_bytes // 10)
    log = opened(store, clock=clock, segments=tenth)
    wide = log.open_table(Schema(tuple(StatisticColumn(f"t{n}", "l2") for n in range(bytes_a_second // 10 // 4 - 17))))
    row = np.zeros(len(wide.schema.columns), np.float32)
    most, seconds = 0, 20 * 3600
    for second in range(seconds):
        wide.record(row, step=second, mode="TRAIN", mode_step=0, wall_time=0.0)
        clock.now += 1
        assert log.flush_if_due()
        if second % 1000 == 999:
            most = max(most, sum(1 for _ in store.inner.list()))
            store.inner = smaller(store.inner)
    assert most < 300
    assert store.requests["put"] == pytest.approx(73_200, abs=50)
    assert store.requests["get"] == store.requests["list"] == 0
    log.close()
    large = list(store.inner.list())
    assert 60 < len(large) < 80
    assert [span(key) + 1 for key in large[:-1]] == [64 * 18] * (len(large) - 1)


def smaller(objects: MemoryStore) -> MemoryStore:
    """The same keys without their contents, for only they are counted."""
    emptied = MemoryStore()
    for key in objects.list():
        emptied.put(key, b"")
    return emptied


def test_a_short_run_is_one_object_in_the_end() -> None:
    store, clock = ObjectStore(), Clock()
    log = opened(store, clock=clock)
    table = log.open_table(PAIR)
    for step in range(100):
        take(table, step)
        clock.now += 1
        log.flush_if_due()
    log.close()
    (key,) = store.inner.list()
    assert key == f"worker_0/{STARTED}-000000000-000000099.tss"
    assert steps_in(store) == list(range(100))


def test_a_file_is_closed_when_it_is_full_and_repeats_its_schemas() -> None:
    store = GrowingStore()
    log = opened(store, segments=SegmentLimits(file_bytes=4000, schemas_every_bytes=1000))
    table = log.open_table(PAIR)
    for step in range(200):
        take(table, step)
        log.flush()
    keys = list(store.inner.list())
    assert len(keys) > 3
    assert all(key.endswith("-open.tss") for key in keys)
    assert steps_in(store) == list(range(200))
    kinds = [block.kind for block in read_blocks(store.inner.get(keys[0]), key="k").blocks]
    assert kinds.count(SCHEMA_KIND) >= 3


def test_works_on_a_store_in_memory_as_it_is() -> None:
    inner = MemoryStore()
    log = opened(inner)
    take(log.open_table(PAIR), 5)
    log.close()
    assert len(list(inner.list())) == 1
