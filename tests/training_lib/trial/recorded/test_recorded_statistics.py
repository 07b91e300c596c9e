"""Always-on statistics as they are read: while they grow, after a kill, in spite of damage, for what is new only."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer

from tests.patience import HANGS_SECONDS
from tests.training_lib.capture.object_store import Clock, GrowingStore, ObjectStore
from trackside.capture.statistics.segment_storage import SegmentLimits
from trackside.capture.statistics.statistics_log import LogLimits, StatisticsLog, StatisticsTable
from trackside.contracts.errors import RecordError, StorageUnavailableError
from trackside.records.block_file import HEAD_BYTES, MARK, encode_block, read_blocks
from trackside.records.statistics_segment import SCHEMA_KIND, Schema, StatisticColumn, encode_header
from trackside.storage.local import LocalStore
from trackside.storage.s3 import S3Store
from trackside.storage.store import Store
from trackside.trial.recorded import recorded_statistics
from trackside.trial.recorded.recorded_statistics import RecordedStatistics

EVERYTHING = 2**62
STARTED = 1_763_700_000_000
LOSS = ("Loss_output_0", "mean")
NORM = ("gradient/Net_a.weight", "l2")
PAIR = Schema((StatisticColumn(*LOSS), StatisticColumn(*NORM)))
SMALL = SegmentLimits(objects=4, file_bytes=2000, schemas_every_bytes=700)


def opened(
    store: Any, *, worker: str = "worker_0", started_ms: int = STARTED, clock: Clock | None = None, **limits: Any
) -> StatisticsLog:
    bounds = LogLimits(**{"segments": SMALL, **limits})
    return StatisticsLog(store, worker=worker, started_ms=started_ms, limits=bounds, monotonic=clock or Clock())


def take(table: StatisticsTable, step: int, *values: float, mode: str = "TRAIN", **more: Any) -> None:
    wall_time = more.pop("wall_time", float(step))
    array = np.array(values or (step, step / 2), np.float32)
    table.record(array, step=step, mode=mode, mode_step=step, wall_time=wall_time, **more)


class Reader(RecordedStatistics):
    """The reader with what it reported."""

    def __init__(self, store: Any, **more: Any) -> None:
        self.errors: list[RecordError] = []
        super().__init__(store, report=self.errors.append, **more)

    def points(
        self, tensor: str, statistic: str, *, mode: str | None = "TRAIN", last_step: int = EVERYTHING
    ) -> dict[str, list[tuple[int, float]]]:
        columns = self.columns(tensor, statistic, last_step=last_step, mode=mode)
        assert [column.worker for column in columns] == sorted({column.worker for column in columns})
        assert all(column.tensor == tensor and len(column.steps) == len(column.values) > 0 for column in columns)
        assert all(column.steps.dtype == np.int64 and column.values.dtype == np.float64 for column in columns)
        return {c.worker: list(zip(c.steps.tolist(), c.values.tolist(), strict=True)) for c in columns}

    def steps(self, worker: str = "worker_0") -> list[int]:  # type: ignore[override]  # of the losses
        return [step for step, _ in self.points(*LOSS).get(worker, [])]


def read(store: Any) -> Reader:
    reader = Reader(store)
    reader.refresh()
    return reader


def test_an_empty_place_holds_nothing() -> None:
    store = ObjectStore()
    reader = Reader(store)
    assert not reader.refresh()
    assert (reader.tensors, reader.statistics_of("x"), reader.points("x", "l2")) == (frozenset(), frozenset(), {})
    assert store.requests == {"list": 1}


def test_nothing_is_read_before_the_first_refresh() -> None:
    store = ObjectStore()
    Reader(store)
    assert not store.requests


@pytest.mark.parametrize("kind", [ObjectStore, GrowingStore])
def test_columns_per_worker_up_to_a_step_and_of_a_mode(kind: Any) -> None:
    store = kind()
    for rank in (10, 2, 1):
        log = opened(store, worker=f"worker_{rank}")
        table = log.open_table(PAIR)
        for step in range(6):
            take(table, step, 10 * rank + step, 0.5, mode="EVAL" if step % 3 == 2 else "TRAIN")
            log.flush()
    reader = read(store)
    assert reader.tensors == {LOSS[0], NORM[0]}
    assert reader.statistics_of(NORM[0]) == {"l2"}
    assert reader.points(*LOSS, last_step=3) == {
        "worker_1": [(0, 10), (1, 11), (3, 13)],
        "worker_10": [(0, 100), (1, 101), (3, 103)],
        "worker_2": [(0, 20), (1, 21), (3, 23)],
    }
    assert reader.points(*LOSS, mode="EVAL")["worker_1"] == [(2, 12), (5, 15)]
    assert [step for step, _ in reader.points(*LOSS, mode=None)["worker_1"]] == [0, 1, 2, 3, 4, 5]
    assert reader.points(*LOSS, last_step=-1) == {}
    assert reader.points(*LOSS, mode="PREDICT") == {}
    assert reader.points(LOSS[0], "l2") == {}
    assert reader.errors == []


def test_a_nan_that_was_measured_is_told_from_what_was_not() -> None:
    store = ObjectStore()
    log = opened(store)
    table = log.open_table(PAIR)
    take(table, 0, 1.0, math.nan)
    take(table, 1, math.nan, 1.0, measured=np.array([True, False]))
    take(table, 2, math.inf, 2.0)
    log.flush()
    reader = read(store)
    np.testing.assert_equal(reader.points(*LOSS), {"worker_0": [(0, 1.0), (1, math.nan), (2, math.inf)]})
    np.testing.assert_equal(reader.points(*NORM), {"worker_0": [(0, math.nan), (2, 2.0)]})


def test_groups_tell_their_members() -> None:
    store = ObjectStore()
    log = opened(store)
    table = log.open_table(Schema((StatisticColumn("group/0", "l2"),), {"group/0": ("a", "b")}))
    take(table, 0, 3.0)
    log.flush()
    reader = read(store)
    assert reader.groups == {"group/0": ("a", "b")}
    assert reader.points("group/0", "l2") == {"worker_0": [(0, 3.0)]}


@pytest.mark.parametrize("kind", [ObjectStore, GrowingStore])
@pytest.mark.parametrize("is_live", [False, True], ids=["read at the end", "read on the way"])
def test_after_a_restart_the_later_rows_hold(kind: Any, is_live: bool) -> None:
    store = kind()
    reader = Reader(store)
    for started, first, last, value in ((5000, 4, 9, 2.0), (1000, 0, 8, 1.0), (9000, 7, 12, 3.0)):
        log = opened(store, started_ms=STARTED + started)
        table = log.open_table(PAIR)
        for step in range(first, last):
            take(table, step, value, value)
            log.flush()
            if is_live:
                reader.refresh()
                reader.points(*LOSS)
    reader.refresh()
    expected = [(step, 1.0 if step < 4 else 2.0 if step < 7 else 3.0) for step in range(12)]
    assert reader.points(*LOSS) == {"worker_0": expected}
    assert reader.errors == []


def test_what_was_handed_out_never_changes() -> None:
    store = GrowingStore()
    log = opened(store)
    table = log.open_table(PAIR)
    reader = Reader(store)
    handed_out: list[Any] = []
    for step in [*range(50), *range(20, 60)]:  # a script that counts some steps twice
        take(table, step, wall_time=float(len(handed_out)))
        log.flush()
        reader.refresh()
        (column,) = reader.columns(*LOSS, last_step=EVERYTHING, mode="TRAIN")
        with pytest.raises(ValueError, match="read-only"):
            column.values[0] = 1
        handed_out.append((column, column.steps.tolist(), column.values.tolist()))
    for column, steps, values in handed_out:
        assert (column.steps.tolist(), column.values.tolist()) == (steps, values)
    assert reader.steps() == list(range(60))


# What a run may do, at random, against a dictionary.

actions = st.lists(
    st.one_of(
        st.tuples(
            st.just("row"),
            st.sampled_from(["often", "seldom"]),
            st.integers(0, 30),
            st.sampled_from(["TRAIN", "EVAL"]),
            st.floats(width=32),
            st.booleans(),
        ),
        st.just(("flush",)),
        st.just(("read",)),
        st.just(("restart",)),
        st.just(("close",)),
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=150)
@given(actions, st.sampled_from([ObjectStore, GrowingStore]), st.sampled_from([0, 1 << 20]))
def test_reads_what_was_recorded_however_it_came(script: list[Any], kind: Any, cache_bytes: int) -> None:
    store = kind()
    live = Reader(store, cache_bytes=cache_bytes)
    expected: dict[tuple[str, str], dict[tuple[int, str], float]] = {LOSS: {}, NORM: {}}
    started, clock = STARTED, 0
    schemas = {"often": PAIR, "seldom": Schema((StatisticColumn(*NORM), StatisticColumn("other", "rank", "u1")))}

    def restarted() -> tuple[StatisticsLog, dict[str, StatisticsTable]]:
        log = opened(store, started_ms=started)
        return log, {name: log.open_table(schema) for name, schema in schemas.items()}

    log, tables = restarted()
    for action, *more in script:
        if action == "row":
            name, step, mode, value, is_measured = more
            clock += 1
            measured = np.array([True, is_measured]) if name == "often" else np.array([is_measured, True])
            take(tables[name], step, value, value, mode=mode, wall_time=clock, measured=measured)
            if name == "often":
                expected[LOSS][step, mode] = value
            if is_measured:
                expected[NORM][step, mode] = value
        elif action == "flush":
            log.flush()
        elif action == "close":
            log.close()
        elif action == "restart":
            log.flush()
            started += 1000
            log, tables = restarted()
        else:
            live.refresh()
            live.points(*LOSS)
            live.points(*NORM, mode=None)
    log.flush()
    live.refresh()
    for reader in (live, read(store)):
        for identity, rows in expected.items():
            for mode in ("TRAIN", "EVAL"):
                wanted = sorted((step, value) for (step, row_mode), value in rows.items() if row_mode == mode)
                np.testing.assert_equal(reader.points(*identity, mode=mode), {"worker_0": wanted} if wanted else {})
            both = sorted((step, mode != "TRAIN") for step, mode in rows)
            found = reader.points(*identity, mode=None).get("worker_0", [])
            np.testing.assert_equal(
                found, [(step, rows[step, "EVAL" if is_eval else "TRAIN"]) for step, is_eval in both]
            )
        assert reader.errors == []
        assert reader.missing_blocks == 0


class TestRequests:
    """What a look costs: what is new, and no more."""

    def test_objects(self) -> None:
        store = ObjectStore()
        log = opened(store)
        table = log.open_table(PAIR)
        reader = Reader(store)
        for step in range(40):
            for part in range(3):
                take(table, 3 * step + part)
            log.flush()
            store.requests.clear()
            assert reader.refresh()
            assert store.requests == {"list": 1, "get": 1}
            store.requests.clear()
            assert not reader.refresh()
            assert store.requests == {"list": 1}
        log.close()
        store.requests.clear()
        assert not reader.refresh()
        assert store.requests == {"list": 1}
        assert reader.steps() == list(range(120))

    def test_a_finished_run_takes_a_list_and_a_get_for_each_object(self) -> None:
        store = ObjectStore()
        log = opened(store, segments=SegmentLimits())
        table = log.open_table(PAIR)
        for step in range(1000):
            take(table, step)
            log.flush()
        log.close()
        store.requests.clear()
        assert read(store).steps() == list(range(1000))
        assert store.requests == {"list": 1, "get": 1}

    def test_leftovers_of_a_killed_writer_are_not_fetched(self) -> None:
        store = ObjectStore()
        clock = Clock()
        log = opened(store, clock=clock)
        table = log.open_table(PAIR)
        store.fails = lambda operation, _key: operation == "delete"
        for step in range(16):
            take(table, step)
            clock.now += 100
            log.flush()
        assert len(list(store.inner.list())) > 16
        store.requests.clear()
        assert read(store).steps() == list(range(16))
        assert store.requests["get"] <= 4

    def test_a_file_is_read_from_where_it_was_left(self) -> None:
        store = GrowingStore()
        log = opened(store, segments=SegmentLimits())
        table = log.open_table(PAIR)
        reader = Reader(store)
        asked: list[int] = []
        got = store.get

        def noted(key: str, *, start: int = 0, length: int | None = None) -> bytes:
            data = got(key, start=start, length=length)
            asked.append(len(data))
            return data

        store.get = noted  # a note beside the real thing
        for step in range(50):
            take(table, step)
            log.flush()
            store.requests.clear()
            reader.refresh()
            assert store.requests == {"list": 1, "get": 1}
        (key,) = store.inner.list()
        assert sum(asked) == len(store.inner.get(key))

    def test_files_that_will_not_grow_are_left_alone(self) -> None:
        store = GrowingStore()
        for started in range(5):
            log = opened(store, started_ms=STARTED + started)
            table = log.open_table(PAIR)
            for step in range(60):
                take(table, 60 * started + step)
                log.flush()
        reader = read(store)
        assert len(list(store.inner.list())) > 8
        store.requests.clear()
        assert not reader.refresh()
        assert store.requests == {"list": 1, "get": 5}  # the newest file of each process
        assert reader.steps() == list(range(300))


class TestWhileItIsMerged:
    def test_every_moment_between_put_and_delete_shows_all_rows(self) -> None:
        store = ObjectStore()
        log = opened(store)
        table = log.open_table(PAIR)
        live = Reader(store)
        stored = -1
        moments = 0

        def look(operation: str, _key: str) -> None:
            nonlocal moments
            if operation in {"put", "delete"}:
                moments += 1
                for reader in (live, Reader(store)):
                    reader.refresh()
                    assert reader.steps() in (list(range(stored + 1)), list(range(stored + 2)))
                    assert reader.errors == []

        store.before = look
        for step in range(40):
            take(table, step)
            log.flush()
            stored = step
            look("put", "")
        stored = 38
        log.close()
        look("put", "")
        assert moments > 100

    @pytest.mark.parametrize("request_number", range(1, 6))
    def test_objects_may_vanish_between_being_listed_and_being_read(self, request_number: int) -> None:
        store = ObjectStore()
        log = opened(store, segments=SegmentLimits(objects=8, deletes_a_flush=100))
        table = log.open_table(PAIR)
        for step in range(7):
            take(table, step)
            log.flush()
        reader = Reader(store)
        gets = 0

        def merge(operation: str, _key: str) -> None:
            nonlocal gets
            gets += operation == "get"
            if operation == "get" and gets == request_number:
                take(table, 7)
                log.flush()

        store.before = merge
        reader.refresh()
        store.before = lambda _operation, _key: None
        reader.refresh()
        assert reader.steps() == list(range(8))
        assert reader.errors == []

    def test_a_gap_that_a_second_listing_closes_is_none(self) -> None:
        """A listing of several pages may be overtaken by a merge: the parts are gone, the whole stands on a page
        that was listed before."""
        store = ObjectStore()
        log = opened(store)
        table = log.open_table(PAIR)
        for step in range(6):
            take(table, step)
            log.flush()
        listings = 0
        whole = store.list

        def overtaken(prefix: str = "", *, start_after: str = "") -> Iterator[str]:
            nonlocal listings
            listings += 1
            keys = list(whole(prefix, start_after=start_after))
            return iter([key for key in keys if listings > 1 or not key.endswith("-000000003.tss")])

        store.list = overtaken  # on top of the real thing
        store.fails = lambda operation, _key: operation == "delete"
        reader = read(store)
        assert reader.steps() == list(range(6))
        assert (reader.errors, reader.missing_blocks) == ([], 0)


@pytest.mark.parametrize("read_bytes", [40, 500, 16 << 20])
@pytest.mark.parametrize("kind", [ObjectStore, GrowingStore])
def test_a_store_that_fails_is_told_and_read_on_later(
    kind: Any, read_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th request of a look fails, for every n, however small the pieces that are read at once."""
    monkeypatch.setattr(recorded_statistics, "READ_BYTES", read_bytes)
    n = 0
    while True:
        store = kind()
        for started in (0, 1000):
            log = opened(store, started_ms=STARTED + started, segments=SegmentLimits())
            table = log.open_table(PAIR)
            for step in range(3):
                take(table, step + started)
                log.flush()
        count = iter(range(1000))
        store.fails = lambda _operation, _key, count=count, n=n: next(count) == n
        reader = Reader(store)
        try:
            reader.refresh()
        except StorageUnavailableError:
            store.fails = lambda _operation, _key: False
            reader.refresh()
        else:
            break
        assert reader.steps() == [0, 1, 2, 1000, 1001, 1002]
        assert reader.errors == []
        n += 1
    assert n >= 3


class TestWhatIsMissing:
    def test_dropped_blocks_are_reported_once(self) -> None:
        store = ObjectStore()
        log = opened(store, pending_bytes=600)
        table = log.open_table(PAIR)
        reader = Reader(store)
        for step in range(60):
            store.fails = lambda operation, _key, step=step: operation == "put" and 10 <= step < 50  # type: ignore[misc]
            take(table, step)
            try:
                log.flush()
            except StorageUnavailableError:
                assert 10 <= step < 50
            reader.refresh()
        for found in (reader, read(store)):
            (error,) = found.errors
            assert error.key == f"worker_0/{STARTED}"
            assert error.what.startswith(f"blocks 10 to {9 + log.dropped_rows} are missing")
            assert found.missing_blocks == log.dropped_rows > 20
            assert found.steps() == [*range(10), *range(10 + log.dropped_rows, 60)]

    def test_rows_that_nothing_describes_are_reported(self) -> None:
        store = ObjectStore()
        log = opened(store)
        take(log.open_table(PAIR), 0)
        log.flush()
        (key,) = store.inner.list()
        blocks = read_blocks(store.inner.get(key), key=key).blocks
        store.inner.put(
            key, b"".join(encode_block(b.kind, b.payload, number=b.number) for b in blocks if b.kind != SCHEMA_KIND)
        )
        reader = read(store)
        reader.refresh()
        (error,) = reader.errors
        assert "nothing describes the rows of schema 0" in error.what


def recorded(kind: Any, *, steps: int = 60) -> Any:
    """A store with a run in it: two tiers, what was not measured, several files."""
    store = kind()
    log = opened(store)
    often, seldom = log.open_table(PAIR), log.open_table(Schema((StatisticColumn("dear", "l2", "f8"),)))
    for step in range(steps):
        take(often, step, measured=np.array([True, step % 5 > 0]))
        if step % 10 == 0:
            take(seldom, step, step)
        log.flush()
    return store


class TestDamage:
    @pytest.mark.parametrize("kind", [ObjectStore, GrowingStore])
    def test_any_changed_byte_costs_what_it_hit(self, kind: Any) -> None:
        """A block of rows costs its rows; of objects, a schema costs its object; a header costs nothing."""
        store = recorded(kind)
        keys = list(store.inner.list())
        rng = np.random.default_rng(1)
        for _ in range(300):
            key = keys[rng.integers(len(keys))]
            original = store.inner.get(key)
            changed = bytearray(original)
            place = int(rng.integers(len(changed)))
            changed[place] ^= int(rng.integers(1, 256))
            store.inner.put(key, bytes(changed))
            reader = read(store)
            lost = set(range(60)) - set(reader.steps())
            if kind is ObjectStore:
                first, last = (int(part) for part in key[:-4].split("-")[1:])
                assert len(lost) <= last - first + 1
            else:
                assert len(lost) <= 1
            assert all(value == step for step, value in reader.points(*LOSS)["worker_0"])
            is_tail = lost <= {59} and not reader.errors
            assert is_tail or all(error.key == key for error in reader.errors)
            assert is_tail or any(abs(error.offset - place) < 4000 for error in reader.errors)
            store.inner.put(key, original)

    @pytest.mark.parametrize("kind", [ObjectStore, GrowingStore])
    def test_any_truncation_keeps_what_is_whole(self, kind: Any) -> None:
        store = recorded(kind, steps=20)
        keys = list(store.inner.list())
        for key in keys:
            original = store.inner.get(key)
            for length in range(0, len(original), 7):
                store.inner.put(key, original[:length])
                reader = read(store)
                steps = reader.steps()
                assert all(value == step for step, value in reader.points(*LOSS).get("worker_0", []))
                assert set(steps) <= set(range(20))
                if kind is ObjectStore:
                    assert (len(steps) == 20) or reader.errors
            store.inner.put(key, original)

    @settings(deadline=None, max_examples=200)
    @given(st.data())
    def test_rubbish_never_ends_the_reading(self, data: st.DataObject) -> None:
        store = recorded(data.draw(st.sampled_from([ObjectStore, GrowingStore])), steps=12)
        keys = sorted(store.inner.list())
        for _ in range(data.draw(st.integers(1, 4))):
            key = data.draw(st.sampled_from(keys))
            content = bytearray(store.inner.get(key))
            start = data.draw(st.integers(0, len(content)))
            end = data.draw(st.integers(start, min(len(content), start + 100)))
            content[start:end] = data.draw(st.binary(max_size=100))
            store.inner.put(key, bytes(content))
        reader = read(store)
        assert set(reader.steps()) <= set(range(12))
        reader.refresh()
        count = len(reader.errors)
        reader.refresh()
        assert len(reader.errors) == count

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**64 - 1), st.binary(max_size=60)), max_size=12))
    def test_blocks_of_anything(self, blocks: list[tuple[int, int, bytes]]) -> None:
        """Whole frames around contents that make no sense."""
        store = ObjectStore()
        content = b"".join(encode_block(kind, payload, number=number) for kind, number, payload in blocks)
        store.inner.put(f"worker_0/{STARTED}-000000000-open.tss", content)
        store.inner.put(f"worker_0/{STARTED}-000000000-999999999.tss", encode_header("w", number=0) + content)
        reader = read(store)
        assert reader.tensors == frozenset()

    def test_the_next_version_is_refused_and_the_rest_read(self) -> None:
        store = recorded(ObjectStore, steps=4)
        header = b'{"format": "trackside-statistics", "version": 2, "worker": "worker_1"}'
        key = f"worker_1/{STARTED}-000000000-000000000.tss"
        store.inner.put(key, encode_block(0, header, number=0) + b"what nobody knows")
        reader = read(store)
        assert [(error.key, error.offset) for error in reader.errors] == [(key, 0)]
        assert "version 2" in reader.errors[0].what
        assert reader.steps() == [0, 1, 2, 3]

    def test_damage_longer_than_any_block_is_passed_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(recorded_statistics, "READ_BYTES", 256)
        monkeypatch.setattr(recorded_statistics, "_LARGEST_READ", 2256)
        store = recorded(GrowingStore, steps=10)
        (key,) = store.inner.list()
        whole = store.inner.get(key)
        for rubbish in (bytes(20_000), MARK * 5000):
            store.inner.put(key, whole[:300] + rubbish + whole)
            reader = read(store)
            assert reader.steps() == list(range(10))
            assert reader.errors
            assert not reader.refresh()

    def test_a_damaged_schema_is_made_good_by_its_repetition(self) -> None:
        store = recorded(GrowingStore)
        key = next(iter(store.inner.list()))
        content = bytearray(store.inner.get(key))
        schema = next(b for b in read_blocks(bytes(content), key=key).blocks if b.kind == SCHEMA_KIND)
        content[schema.offset + HEAD_BYTES + 5] ^= 1
        store.inner.put(key, bytes(content))
        reader = read(store)
        assert reader.steps() == list(range(60))
        assert [error.offset for error in reader.errors] == [schema.offset]

    @pytest.mark.parametrize(
        "key",
        [
            pytest.param("worker_0/readme.txt", id="another file"),
            pytest.param("worker_0/1-2-3.tss", id="another name"),
            pytest.param(f"worker_0/{STARTED}-000000005-000000004.tss", id="backwards"),
            pytest.param("index/000000000/000000000000_worker_0.json", id="an index"),
        ],
    )
    def test_what_is_no_segment_is_not_read(self, key: str) -> None:
        store = ObjectStore()
        store.inner.put(key, b"rubbish")
        assert read(store).errors == []
        assert store.requests == {"list": 1}

    def test_one_schema_cannot_be_two_things(self) -> None:
        store = ObjectStore()
        for worker, schema in (("worker_0", PAIR), ("worker_1", Schema((StatisticColumn("x", "l2"),)))):
            log = opened(store, worker=worker)
            table = log.open_table(schema)
            take(table, 0, *[1.0] * len(schema.columns))
            log.flush()
        second = store.inner.get(f"worker_1/{STARTED}-000000000-000000000.tss")
        store.inner.put(f"worker_0/{STARTED}-000000001-000000001.tss", second)
        reader = read(store)
        assert "described in two ways" in reader.errors[0].what
        assert reader.points(*LOSS) == {"worker_0": [(0, 1.0)]}


WRITER = """
    import sys, time
    import numpy as np
    from trackside.capture.statistics.statistics_log import StatisticsLog
    from trackside.records.statistics_segment import Schema, StatisticColumn
    from trackside.storage.local import LocalStore

    log = StatisticsLog(LocalStore(sys.argv[1]), worker="worker_0", started_ms=int(time.time() * 1000))
    log.flush_seconds = 0.2
    table = log.open_table(Schema(tuple(StatisticColumn(f"t{n}", "l2") for n in range(200))))
    step = 0
    while True:
        table.record(np.full(200, step, np.float32), step=step, mode="TRAIN", mode_step=step, wall_time=time.time())
        if log.flush_if_due():
            print(step, flush=True)
        step += 1
        time.sleep(0.0005)
"""


def test_a_writer_is_read_while_it_writes_and_after_it_was_killed(tmp_path: Path) -> None:
    """A real process, a real SIGKILL: what it flushed is there, whole, and the tail does no harm."""
    script = tmp_path / "writer.py"
    script.write_text(textwrap.dedent(WRITER))
    run = tmp_path / "statistics"
    store: Store = LocalStore(run)
    live = Reader(store)
    seen = 0
    with subprocess.Popen([sys.executable, str(script), str(run)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for _ in range(4):
                flushed = int(process.stdout.readline())
                deadline = time.monotonic() + HANGS_SECONDS
                while seen <= flushed and time.monotonic() < deadline:
                    live.refresh()
                    points = live.points("t7", "l2").get("worker_0", [])
                    assert points == [(step, float(step)) for step in range(len(points))]
                    seen = len(points)
                assert seen > flushed
        finally:
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read() if process.stdout else ""
    assert process.returncode == -signal.SIGKILL
    flushed = max([flushed, *map(int, rest.split())])
    live.refresh()
    for reader in (live, read(store)):
        points = reader.points("t199", "l2")["worker_0"]
        assert len(points) > flushed
        assert points == [(step, float(step)) for step in range(len(points))]
        assert reader.errors == []


def test_a_torn_tail_is_no_damage_and_a_restart_goes_on(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    log = opened(store)
    table = log.open_table(PAIR)
    for step in range(5):
        take(table, step)
        log.flush()
    (key,) = store.list()
    whole = store.get(key)
    for cut in range(len(whole) - 60, len(whole)):
        store.put(key, whole[:cut])
        live = read(store)
        assert live.steps() == [0, 1, 2, 3]
        later = opened(store, started_ms=STARTED + 1000)
        take(later.open_table(PAIR), 4)
        later.flush()
        live.refresh()
        assert live.steps() == [0, 1, 2, 3, 4]
        assert live.errors == []
        store.delete(f"worker_0/{STARTED + 1000}-000000000-open.tss")


def test_memory_stays_near_what_is_stored() -> None:
    store = GrowingStore()
    log = opened(store, pending_bytes=1 << 26, segments=SegmentLimits())
    table = log.open_table(Schema(tuple(StatisticColumn(f"t{n}", "l2") for n in range(300))))
    row = np.zeros(300, np.float32)
    for step in range(10_000):
        table.record(row, step=step, mode="TRAIN", mode_step=step, wall_time=0.0)
    log.flush()
    (key,) = store.inner.list()
    stored = len(store.inner.get(key))
    assert stored > 12_000_000
    del log, table
    tracemalloc.start()
    try:
        reader = Reader(store, cache_bytes=1 << 20)
        reader.refresh()
        for number in range(300):
            assert len(reader.points(f"t{number}", "l2", last_step=5)["worker_0"]) == 6
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1.15 * stored + 2_000_000


def calls_and_bytes(function: Callable[[], object]) -> tuple[int, int]:
    """How much is called, and how many bytes are allocated at most: what a function costs, on any machine."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    tracemalloc.start()
    try:
        function()
        return calls, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_following_a_long_run_costs_what_is_new() -> None:
    """An answer among 72,000 steps costs what one among a hundred does, and so does the next one after a new row."""
    store = GrowingStore()
    log = opened(store, pending_bytes=1 << 26, segments=SegmentLimits())
    table = log.open_table(PAIR)
    for step in range(72_000):
        take(table, step)
    log.flush()
    reader = read(store)
    assert len(reader.steps()) == 72_000

    def ask(last_step: int, *, after_a_row: bool) -> tuple[int, int]:
        reader.columns(*LOSS, last_step=last_step, mode="TRAIN")

        def answer() -> object:
            reader._logs.version += after_a_row
            return reader.columns(*LOSS, last_step=last_step, mode="TRAIN")

        return calls_and_bytes(answer)

    for after_a_row in (False, True):
        (few_calls, few_bytes), (calls, size) = (ask(step, after_a_row=after_a_row) for step in (100, 71_000))
        assert calls <= few_calls + 10
        assert size <= few_bytes + 4096, "no copy, and no mask, of 72,000 values"


class Net:
    """Seventy-six residual layers in NumPy, 152 arrays of parameters: a real thing to record."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.parameters = {
            f"Net_layer{n}.{name}": rng.normal(0, 0.2, shape).astype(np.float32)
            for n in range(76)
            for name, shape in (("weight", (8, 8)), ("bias", (8,)))
        }

    def loss_and_gradients(self, x: Any, y: Any) -> tuple[float, dict[str, Any]]:
        activations = [x]
        for n in range(76):
            weight, bias = self.parameters[f"Net_layer{n}.weight"], self.parameters[f"Net_layer{n}.bias"]
            activations.append(activations[-1] + 0.1 * np.tanh(activations[-1] @ weight + bias))
        error = activations[-1] - y
        upstream = 2 * error / error.size
        gradients: dict[str, Any] = {}
        for n in reversed(range(76)):
            weight = self.parameters[f"Net_layer{n}.weight"]
            inner = (activations[n + 1] - activations[n]) / 0.1
            local = 0.1 * upstream * (1 - inner**2)
            gradients[f"Net_layer{n}.weight"] = activations[n].T @ local
            gradients[f"Net_layer{n}.bias"] = local.sum(axis=0)
            upstream = upstream + local @ weight.T
        return float(np.square(error).mean()), gradients


def test_a_real_training_is_recorded_and_read_back(tmp_path: Path) -> None:
    """Loss, learning rate, 152 gradient norms and their flags at every step, at less than a kilobyte each."""
    net = Net()
    names = list(net.parameters)
    schema = Schema(
        (
            StatisticColumn("MSELoss_output_0", "mean"),
            StatisticColumn("learning_rate/0", "mean"),
            *(StatisticColumn(f"gradient/{name}", "l2") for name in names),
            *(StatisticColumn(f"gradient/{name}", "has_nonfinite", "bit") for name in names),
            *(StatisticColumn(f"gradient/{name}", "is_present", "bit") for name in names),
        )
    )
    clock = Clock()
    log = StatisticsLog(LocalStore(tmp_path), worker="worker_0", started_ms=STARTED, monotonic=clock)
    table = log.open_table(schema)
    live = Reader(LocalStore(tmp_path))
    rng = np.random.default_rng(1)
    target = rng.normal(0, 1, (8, 8)).astype(np.float32)
    losses: list[float] = []
    norms: list[list[float]] = []
    steps = 120
    for step in range(steps):
        x = rng.normal(0, 1, (16, 8)).astype(np.float32)
        loss, gradients = net.loss_and_gradients(x, np.tanh(x @ target))
        norms.append([float(np.sqrt(np.square(gradients[name]).sum())) for name in names])
        losses.append(loss)
        present = np.ones(len(names), np.float32)
        values = np.concatenate(([loss, 0.3], norms[-1], ~np.isfinite(norms[-1]), present)).astype(np.float32)
        table.record(values, step=step, mode="TRAIN", mode_step=step, wall_time=1763700000.0 + step)
        for name, gradient in gradients.items():
            net.parameters[name] -= 0.3 * gradient
        clock.now += 0.1
        log.flush_if_due()
        live.refresh()
    log.close()
    live.refresh()
    assert losses[-1] < losses[0] / 2
    for reader in (live, read(LocalStore(tmp_path))):
        assert len(reader.tensors) == 154
        (loss_column,) = reader.columns("MSELoss_output_0", "mean", last_step=EVERYTHING, mode="TRAIN")
        assert loss_column.steps.tolist() == list(range(steps))
        np.testing.assert_allclose(loss_column.values, losses, rtol=1e-6)
        for place, name in enumerate(names):
            (column,) = reader.columns(f"gradient/{name}", "l2", last_step=EVERYTHING, mode="TRAIN")
            np.testing.assert_allclose(column.values, [row[place] for row in norms], rtol=1e-6)
            assert reader.points(f"gradient/{name}", "has_nonfinite")["worker_0"][-1] == (steps - 1, 0.0)
        assert reader.errors == []
    (key,) = LocalStore(tmp_path).list()
    assert len(LocalStore(tmp_path).get(key)) / steps < 800


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    session = boto3.session.Session(
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE", aws_secret_access_key="secret", region_name="us-east-1"
    )
    client = session.client("s3", endpoint_url=f"http://{host}:{port}")
    client.create_bucket(Bucket="runs")
    yield client
    client.close()
    server.stop()


def test_on_s3_requests_are_counted(client: Any) -> None:
    store = S3Store("runs", "a/run/statistics", client)
    sent: list[str] = []

    def note(request: Any, **_more: Any) -> None:
        sent.append(request.method if request.method != "GET" or "list-type" not in request.url else "LIST")

    client.meta.events.register("before-send.s3", note)
    log = opened(store, segments=SegmentLimits(objects=8))
    table = log.open_table(PAIR)
    live = Reader(store)
    for step in range(20):
        take(table, step)
        log.flush()
        if step % 5 == 4:
            live.refresh()
    assert sent.count("PUT") == 22
    assert (sent.count("LIST"), sent.count("HEAD")) == (4, 0)
    # 20 objects: five new ones a look, or the one that has replaced most of them
    assert sent.count("GET") <= 20
    log.close()
    sent.clear()
    assert read(store).steps() == live.steps() == list(range(20))
    assert sent == ["LIST", "GET"]
    client.meta.events.unregister("before-send.s3", note)
