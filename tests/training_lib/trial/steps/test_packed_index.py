"""A run opened by its packed index is the run that smdebug's index describes, whatever became of either."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing import packed_index as capture_packed_index
from trackside.capture.writing.run_files import RunFiles
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import RecordError, StorageUnavailableError
from trackside.contracts.run_layout import (
    END_MARKER_KEY,
    INDEX_PREFIX,
    PACKED_INDEX_PREFIX,
    event_key,
    index_key,
    parse_packed_index_key,
)
from trackside.records.index_file import Index, IndexEntry, ShapeEntry, encode_index
from trackside.records.modes import MODE_NUMBERS
from trackside.records.packed_index import decode_packed_index
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.testing.fake_trial import write_collections, write_tensors
from trackside.trial.steps import packed_index
from trackside.trial.steps.packed_index import PackedFiles, rebuild_packed_index
from trackside.trial.steps.step_index import StepIndex

REQUEST = CaptureRequest((CollectionRequest("losses", Schedule(1)),))


class Killed(BaseException):
    """The process is gone."""


class Watched(MemoryStore):
    """Notes what is read, and lets a test have a say before anything is put."""

    def __init__(self) -> None:
        super().__init__()
        self.gets: list[str] = []
        self.before_put: Callable[[str], None] = lambda _: None

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self.before_put(key)
        super().put(key, data)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self.gets.append(key)
        return super().get(key, start=start, length=length)

    def indexes_read(self) -> list[str]:
        gets, self.gets = self.gets, []
        return [key for key in gets if key.startswith(INDEX_PREFIX)]


class Without(MemoryStore):
    """Another store without its packed index."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        return self._store.get(key, start=start, length=length)

    def exists(self, key: str) -> bool:
        return self._store.exists(key)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        keys = self._store.list(prefix, start_after=start_after)
        return (key for key in keys if not key.startswith(PACKED_INDEX_PREFIX))


def files_of(store: Store, *, worker: str = "worker_0", workers: int = 1, at: float = 1000.0) -> RunFiles:
    """Return the files of a worker for which a second passes with each look at the clock."""
    ends_run, clock = worker == "worker_0", count(at).__next__
    return RunFiles(lambda: store, request=REQUEST, worker=worker, num_workers=workers, ends_run=ends_run, clock=clock)


def step(number: int, *, mode: str = "TRAIN", width: int = 1) -> StepTensors:
    tensors = (("MSELoss_output_0", np.ones(1, np.float32)), ("Net_fc.weight", np.ones(width, np.float32)))
    return StepTensors(number, mode, number // 2, 7.0, tensors)


def save_all(files: RunFiles, numbers: Iterable[int], *, width: int = 1) -> None:
    for number in numbers:
        files.save(step(number, width=width))


def opened(store: Store, **options: Any) -> tuple[StepIndex, list[RecordError]]:
    damage: list[RecordError] = []
    index = StepIndex(store, report=damage.append, **options)
    index.refresh()
    return index, damage


def content(index: StepIndex) -> list[Any]:
    """All that a reader can see of it."""
    known = [
        (
            saved.step,
            saved.worker,
            saved.mode,
            saved.mode_step,
            saved.event_key,
            saved.layout.records,
            saved.layout.shapes,
        )
        for saved in index.arrivals
    ]
    unreadable = [step for step in index.steps if index.has_unreadable_index(step)]
    at = [index.workers_at(step) for step in index.steps]
    return [known, index.steps, at, unreadable, index.names, index.workers, index.has_ended]


def assert_the_same_with_and_without(store: Store, **options: Any) -> None:
    packed, _ = opened(store, **options)
    plain, _ = opened(Without(store), **options)
    assert content(packed) == content(plain)


def packed_keys(store: Store) -> list[str]:
    return list(store.list(PACKED_INDEX_PREFIX))


def test_a_finished_run_is_opened_without_reading_an_index() -> None:
    store = Watched()
    files = files_of(store)
    for number in range(50):
        files.save(step(number, mode=("TRAIN", "EVAL")[number % 2], width=1 + number // 20))
    files.finish()
    index, damage = opened(store)
    assert (store.indexes_read(), damage, index.has_ended) == ([], [], True)
    assert index.last_complete == 49
    assert_the_same_with_and_without(store)


def test_of_a_growing_run_only_the_newest_indexes_are_read() -> None:
    store = Watched()
    files = files_of(store)
    for number in range(16 * 3 + 15):
        files.save(step(number))
    index, _ = opened(store)
    assert store.indexes_read() == [index_key(number, "worker_0") for number in range(48, 63)]
    files.save(step(63))
    index.refresh()
    assert store.indexes_read() == [index_key(63, "worker_0")]
    assert index.steps == [*range(64)]
    assert_the_same_with_and_without(store)


def test_steps_out_of_range_are_left_out() -> None:
    store = Watched()
    files = files_of(store)
    for number in range(40):
        files.save(step(number))
    index, _ = opened(store, first_step=5, end_step=34)
    assert index.steps == [*range(5, 34)]
    assert store.indexes_read() == [index_key(32, "worker_0"), index_key(33, "worker_0")]


@pytest.mark.parametrize("lag", [0, 1, 17, 40], ids=lambda lag: f"{lag}-behind")
def test_a_slower_worker_holds_the_listing_back(lag: int) -> None:
    store = Watched()
    fast, slow = (files_of(store, worker=f"worker_{rank}", workers=2) for rank in range(2))
    for number in range(60):
        fast.save(step(number))
        if number < 60 - lag:
            slow.save(step(number))
    index, _ = opened(store)
    assert index.steps == [*range(60)]
    assert len(store.indexes_read()) <= 2 * 15
    assert_the_same_with_and_without(store)


def test_a_worker_without_a_packed_index_is_read_from_the_beginning() -> None:
    store = Watched()
    files = files_of(store, workers=2)
    for number in range(32):
        files.save(step(number))
        write_tensors(store, number, {"a": 1.0}, worker="worker_1")
    write_collections(store, workers=("worker_0", "worker_1"))
    opened(store)
    assert store.indexes_read() == [index_key(number, "worker_1") for number in range(32)]
    assert_the_same_with_and_without(store)


def test_without_collections_nothing_is_taken_for_whole() -> None:
    store = Watched()
    files = files_of(store)
    for number in range(16):
        files.save(step(number))
    write_tensors(store, 3, {"a": 1.0}, worker="worker_1")
    store.delete("collections/000000000/worker_0_collections.json")
    index, _ = opened(store)
    assert index.workers_at(3) == {"worker_0", "worker_1"}


def test_a_worker_that_comes_late_is_found() -> None:
    store = Watched()
    first = files_of(store, workers=2)
    for number in range(40):
        first.save(step(number))
    index, _ = opened(store)
    late = files_of(store, worker="worker_1", workers=2)
    for number in range(40):
        late.save(step(number))
    index.refresh()
    assert all(index.workers_at(number) == {"worker_0", "worker_1"} for number in range(40))
    assert index.last_complete == 39


def test_a_reader_that_has_fallen_behind_catches_up_by_the_packed_index() -> None:
    store = Watched()
    files = files_of(store)
    files.save(step(0))
    index, _ = opened(store)
    store.gets.clear()
    for number in range(1, 500):
        files.save(step(number))
    index.refresh()
    assert index.steps == [*range(500)]
    assert len(store.indexes_read()) <= 15
    assert [saved.step for saved in index.arrivals] == index.steps


def killed_after(store: Watched, puts: int) -> None:
    """From now on that many puts work; with the next one the process is gone."""
    done = 0

    def count(_: str) -> None:
        nonlocal done
        done += 1
        if done > puts:
            raise Killed

    store.before_put = count


@pytest.mark.parametrize("puts", [*range(12), *range(30, 42), *range(62, 76)])
def test_whenever_the_process_is_killed_every_step_is_found(puts: int) -> None:
    store = Watched()
    killed_after(store, puts)
    with pytest.raises(Killed):
        save_all(files_of(store), range(100))
    assert_the_same_with_and_without(store)


@settings(max_examples=60, deadline=None)
@given(
    lives=st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 3), st.integers(0, 90), st.integers(1, 4)), min_size=1, max_size=3
    ),
    clocks=st.sampled_from([(1.0, 2.0, 3.0), (3.0, 2.0, 1.0), (1.0, 1.0, 1.0)]),
    finishes=st.booleans(),
)
def test_a_run_of_several_lives_is_what_smdebugs_index_says(
    lives: list[tuple[int, int, int, int]], clocks: tuple[float, ...], finishes: bool
) -> None:
    store = Watched()
    for (first, interval, puts, width), at in zip(lives, clocks, strict=False):
        killed_after(store, puts)
        with contextlib.suppress(Killed):
            save_all(files_of(store, at=at), range(first, first + 40 * interval, interval), width=width)
    store.before_put = lambda _: None
    if finishes:
        store.put(END_MARKER_KEY, b"")
    packed, _ = opened(store)
    plain, _ = opened(Without(store))
    # Where a later life wrote a step and was killed before it could pack it, the row of the earlier one stands until
    # somebody meets a record that is not there: see `StepIndex.reread`.
    for saved in tuple(packed.arrivals):
        packed.reread(saved.step, saved.worker)
    assert content(packed) == content(plain)


@settings(max_examples=40, deadline=None)
@given(failing=st.sets(st.integers(0, 120)), stored_anyway=st.booleans())
def test_whatever_fails_to_be_stored_every_saved_step_is_found(failing: set[int], stored_anyway: bool) -> None:
    store = Watched()
    count = 0

    def before_put(key: str) -> None:
        nonlocal count
        count += 1
        if count in failing:
            if stored_anyway and key.startswith(INDEX_PREFIX):  # the answer got lost, not the request
                MemoryStore.put(
                    store, key, encode_index(Index("TRAIN", 0, event_key(0, "worker_0"), (IndexEntry("x", 0, 9),)))
                )
            raise StorageUnavailableError("Connection lost")

    store.before_put = before_put
    files = files_of(store)
    for number in range(50):
        with contextlib.suppress(OSError):
            files.save(step(number))
    assert_the_same_with_and_without(store)


def test_every_put_of_it_failing_loses_nothing() -> None:
    store = Watched()

    def before_put(key: str) -> None:
        if key.startswith(PACKED_INDEX_PREFIX):
            raise StorageUnavailableError("no")

    store.before_put = before_put
    files = files_of(store)
    for number in range(40):
        files.save(step(number))
    files.finish()
    index, _ = opened(store)
    assert (index.steps, index.has_ended, packed_keys(store)) == ([*range(40)], True, [])


def test_of_two_lives_the_later_holds() -> None:
    store = Watched()
    for at, width in ((1.0, 1), (2.0, 9)):
        files = files_of(store, at=at)
        for number in range(16):
            files.save(step(number, width=width))
    index, _ = opened(store)
    assert store.indexes_read() == []
    assert len(index.arrivals) == 16
    assert_the_same_with_and_without(store)


def damaged_run() -> tuple[Watched, str]:
    store = Watched()
    files = files_of(store)
    for number in range(40):
        files.save(step(number, width=1 + number // 10))
    files.finish()
    (key,) = packed_keys(store)
    return store, key


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_said_once_and_made_up_for(data: st.DataObject) -> None:
    store, key = damaged_run()
    whole = bytearray(store.get(key))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    store.put(key, bytes(whole))
    index, damage = opened(store)
    assert [error.key for error in damage] == [key]
    assert content(index) == content(opened(Without(store))[0])


@pytest.mark.parametrize("kept", [0, 1, 27, 28, 200, 800])
def test_a_file_that_is_cut_off_is_made_up_for(kept: int) -> None:
    store, key = damaged_run()
    store.put(key, store.get(key)[:kept])
    assert_the_same_with_and_without(store)


def test_a_file_that_is_removed_while_it_is_read_is_made_up_for() -> None:
    store, key = damaged_run()

    class Gone(Without):
        def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
            return store.list(prefix, start_after=start_after)

        def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
            if name == key:
                store.delete(key)
            return store.get(name, start=start, length=length)

    index, damage = opened(Gone(store))
    assert (index.steps, damage) == ([*range(40)], [])


def test_a_file_of_a_chain_that_is_gone_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_packed_index, "MOST_STEPS", 16)
    store = Watched()
    files = files_of(store)
    for number in range(64):
        files.save(step(number))
    keys = packed_keys(store)
    assert len(keys) == 4
    for key in keys:
        copy = store.get(key)
        store.delete(key)
        assert_the_same_with_and_without(store)
        store.put(key, copy)


def test_two_files_that_follow_on_each_other_promise_nothing() -> None:
    store, key = damaged_run()
    worker, _, _ = parse_packed_index_key(key) or ("", 0, 0)
    files = PackedFiles(store, report=lambda _: None)
    (packed,) = files.read([key])
    assert packed.covered_step == 39
    (packed,) = files.read([key, f"packed-index/{worker}/9999999999999-000000000000.tpi"])
    assert packed.covered_step is None


# Rebuilding


def old_run(store: Store, *, steps: int = 40, workers: int = 1) -> None:
    names = [f"worker_{rank}" for rank in range(workers)]
    write_collections(store, workers=names)
    for number in range(steps):
        for worker in names:
            tensors = {"loss": 1.0, "w": np.ones(1 + number // 9)}
            write_tensors(store, number, tensors, worker=worker, mode=sorted(MODE_NUMBERS)[number % 4])


@pytest.mark.parametrize("workers", [1, 3])
def test_an_old_run_is_given_a_packed_index(workers: int) -> None:
    store = Watched()
    old_run(store, workers=workers)
    before = content(opened(store)[0])
    assert rebuild_packed_index(store) == 40 * workers
    store.gets.clear()
    index, _ = opened(store)
    assert store.indexes_read() == []
    assert content(index) == before


def test_what_was_written_after_it_was_rebuilt_is_found() -> None:
    store = Watched()
    old_run(store)
    rebuild_packed_index(store)
    write_tensors(store, 40, {"loss": 1.0})
    store.gets.clear()
    index, _ = opened(store)
    assert index.steps == [*range(41)]
    assert store.indexes_read() == [index_key(40, "worker_0")]


def test_a_stale_one_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_index, "REBUILT_STEPS", 7)
    store, key = damaged_run()
    for number in range(0, 40, 3):
        write_tensors(store, number, {"something": np.ones(5), "else": 1.0})
    assert rebuild_packed_index(store) == 40
    assert key not in packed_keys(store)
    assert len(packed_keys(store)) == 6
    assert_the_same_with_and_without(store)
    store.gets.clear()
    opened(store)
    assert store.indexes_read() == []
    assert rebuild_packed_index(store) == 40


def test_shapes_and_event_files_of_other_names_are_kept() -> None:
    store = Watched()
    write_collections(store)
    shapes = (ShapeEntry("w", "W", (3, 4)),)
    entries = (IndexEntry("a", 0, 10),)
    store.put(index_key(0, "worker_0"), encode_index(Index("EVAL", 0, None, (), shapes)))
    store.put(index_key(1, "worker_0"), encode_index(Index("TRAIN", 1, event_key(0, "worker_7"), entries, shapes)))
    store.put(index_key(2, "worker_0"), encode_index(Index("TRAIN", 2, event_key(2, "worker_0"), entries)))
    before = content(opened(store)[0])
    assert rebuild_packed_index(store) == 3
    assert content(opened(store)[0]) == before
    assert [saved.event_key for saved in opened(store)[0].arrivals] == [
        "",
        event_key(0, "worker_7"),
        event_key(2, "worker_0"),
    ]


@pytest.mark.parametrize("damaged", [(0,), (20,), (39,), (3, 4, 30)], ids=str)
def test_an_index_that_cannot_be_read_is_still_reported(damaged: tuple[int, ...]) -> None:
    store = Watched()
    old_run(store)
    for number in damaged:
        store.put(index_key(number, "worker_0"), b"{")
    assert rebuild_packed_index(store) == 40 - len(damaged)
    assert_the_same_with_and_without(store)
    assert [error.key for error in opened(store)[1]] == [index_key(number, "worker_0") for number in damaged]
    store.gets.clear()
    opened(store)
    assert len(store.indexes_read()) == len(damaged)


@pytest.mark.parametrize("puts", range(3))
def test_a_rebuilding_that_fails_leaves_a_readable_run(puts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_index, "REBUILT_STEPS", 10)
    store = Watched()
    old_run(store, workers=2)
    killed_after(store, puts)
    with pytest.raises(Killed):
        rebuild_packed_index(store)
    assert_the_same_with_and_without(store)


def test_nothing_to_rebuild_writes_nothing() -> None:
    store = Watched()
    assert rebuild_packed_index(store) == 0
    assert list(store.list()) == []


# Beside the other things that lie in a run


@pytest.mark.parametrize("key", ["tensorboard/TRAIN/000000000000_1_host.tfevents", "other/x", "profiler/x", "zzz/x"])
def test_the_end_is_seen_behind_whatever_else_lies_there(key: str) -> None:
    store, _ = damaged_run()
    store.put(key, b"")
    assert opened(store)[0].has_ended
    store.delete(END_MARKER_KEY)
    assert not opened(store)[0].has_ended


def test_keys_that_are_none_are_passed_over() -> None:
    store, _ = damaged_run()
    store.put("packed-index/readme.txt", b"x")
    store.put("packed-index/worker_0/notes.tpi", b"x")
    index, damage = opened(store)
    assert (index.steps, damage) == ([*range(40)], [])


def test_a_real_folder(tmp_path: Path) -> None:
    from trackside.storage.local import LocalStore

    store = LocalStore(tmp_path / "run")
    files = files_of(store)
    for number in range(20):
        files.save(step(number))
    files.finish()
    (key,) = packed_keys(store)
    assert len(decode_packed_index(store.get(key), key=key).rows) == 20
    assert_the_same_with_and_without(store)
    shutil.rmtree(tmp_path / "run" / "index")
    assert opened(store)[0].steps == [*range(20)]
