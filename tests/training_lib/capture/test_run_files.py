"""The files of a run, as readers find them."""

from __future__ import annotations

import errno
from typing import ClassVar

import numpy as np
import pytest

from trackside.capture.run_files import RunFiles
from trackside.capture.writer import StepTensors
from trackside.contracts import run_layout
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import ConfigurationError, StorageError
from trackside.records.collections_file import Collections, decode_collections
from trackside.records.tfevents import read_records
from trackside.storage.memory import MemoryStore

REQUEST = CaptureRequest((CollectionRequest("losses", Schedule(1)), CollectionRequest("mine", Schedule(5), ("fc",))))


class FullDisk(MemoryStore):
    """Has no room while `is_full`."""

    is_full = False

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        if self.is_full:
            raise StorageError(errno.ENOSPC, "No space left on device")
        super().put(key, data)


def run_files(store: MemoryStore, *, worker: str = "worker_0", num_workers: int = 1, ends_run: bool = True) -> RunFiles:
    return RunFiles(lambda: store, request=REQUEST, worker=worker, num_workers=num_workers, ends_run=ends_run)


def step(number: int, *names: str) -> StepTensors:
    tensors = tuple((name, np.array([number], np.float32)) for name in names)
    return StepTensors(number, "TRAIN", number, 7.0, tensors)


def collections(store: MemoryStore, worker: str = "worker_0") -> Collections:
    key = run_layout.collections_key(worker)
    return decode_collections(store.get(key), key=key)


def test_a_step_is_stored_where_the_layout_says() -> None:
    store = MemoryStore()
    run_files(store).save(step(1234, "MSELoss_output_0"))
    event, index = run_layout.event_key(1234, "worker_0"), run_layout.index_key(1234, "worker_0")
    assert set(store.list()) == {event, index, run_layout.collections_key("worker_0"), run_layout.CLAIM_KEY}
    (record,) = read_records(store.get(event), key=event)
    assert record.name == "MSELoss_output_0"
    assert record.value.tolist() == [1234.0]


def test_collections_follow_the_first_step_and_every_new_name() -> None:
    store = MemoryStore()
    files = run_files(store, num_workers=2)
    files.save(step(0, "MSELoss_output_0"))
    first = collections(store)
    assert first.num_workers == 2
    assert {c.name: c.tensor_names for c in first.collections} == {
        "losses": ("MSELoss_output_0",),
        "weights": (),
        "biases": (),
        "gradients": (),
        "mine": (),
    }
    files.save(step(1, "MSELoss_output_0", "Net_fc.weight", "gradient/Net_fc.weight"))
    mine = collections(store).named("mine")
    assert mine is not None
    assert mine.tensor_names == ("Net_fc.weight", "gradient/Net_fc.weight")
    assert mine.include_regex == ("fc",)
    assert mine.schedules is not None
    assert mine.schedules["TRAIN"] == Schedule(5)


def test_an_unchanged_collections_file_is_not_written_again() -> None:
    store = MemoryStore()
    files = run_files(store)
    files.save(step(0, "MSELoss_output_0"))
    store.delete(run_layout.collections_key("worker_0"))
    files.save(step(1, "MSELoss_output_0"))
    files.finish()
    assert not store.exists(run_layout.collections_key("worker_0"))


@pytest.mark.parametrize(
    ("ends_run", "is_marked"), [pytest.param(True, True, id="rank-0"), pytest.param(False, False, id="other-rank")]
)
def test_the_end_marker_is_rank_0s(ends_run: bool, is_marked: bool) -> None:
    store = MemoryStore()
    files = run_files(store, ends_run=ends_run)
    files.save(step(0, "MSELoss_output_0"))
    assert not store.exists(run_layout.END_MARKER_KEY)
    files.finish()
    assert store.exists(run_layout.END_MARKER_KEY) == is_marked


def test_a_run_that_has_ended_is_not_added_to() -> None:
    store = MemoryStore()
    store.put(run_layout.END_MARKER_KEY, b"")
    with pytest.raises(ConfigurationError, match="has ended"):
        run_files(store).save(step(0, "MSELoss_output_0"))
    assert list(store.list()) == [run_layout.END_MARKER_KEY]


class Remote(MemoryStore):
    """Says that it lies in S3."""

    @property
    def uri(self) -> str:
        return "s3://bucket/run/debug-output"


@pytest.mark.parametrize(
    ("store", "num_workers", "claims"),
    [
        pytest.param(MemoryStore(), 1, True, id="local"),
        pytest.param(MemoryStore(), 2, False, id="several-workers"),
        pytest.param(Remote(), 1, False, id="s3"),
    ],
)
def test_a_local_run_of_one_worker_is_claimed_until_it_ends(store: MemoryStore, num_workers: int, claims: bool) -> None:
    files = run_files(store, num_workers=num_workers)
    assert list(store.list()) == []
    files.save(step(0, "MSELoss_output_0"))
    assert store.exists(run_layout.CLAIM_KEY) == claims
    if claims:
        assert store.get(run_layout.CLAIM_KEY) == b""
    files.finish()
    assert not store.exists(run_layout.CLAIM_KEY)
    assert store.exists(run_layout.END_MARKER_KEY)


def test_a_claim_of_a_killed_process_stops_nobody() -> None:
    store = MemoryStore()
    store.put(run_layout.CLAIM_KEY, b"")
    files = run_files(store)
    files.save(step(0, "MSELoss_output_0"))
    files.finish()
    assert store.exists(run_layout.index_key(0, "worker_0"))
    assert not store.exists(run_layout.CLAIM_KEY)


def test_a_run_is_saved_without_a_claim_where_there_can_be_none() -> None:
    class NoClaim(MemoryStore):
        def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
            if key == run_layout.CLAIM_KEY:
                raise StorageError(errno.EACCES, "Permission denied")
            super().put(key, data)

        def delete(self, key: str) -> None:
            raise StorageError(errno.EACCES, "Permission denied")

    store = NoClaim()
    files = run_files(store)
    files.save(step(0, "MSELoss_output_0"))
    files.finish()
    assert store.exists(run_layout.END_MARKER_KEY)


def test_the_packed_index_is_whole_before_the_end_is_marked() -> None:
    class Ordered(MemoryStore):
        puts: ClassVar[list[str]] = []

        def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
            self.puts.append(key)
            super().put(key, data)

    store = Ordered()
    files = run_files(store)
    files.save(step(0, "MSELoss_output_0"))
    files.finish()
    assert [key.partition("/")[0] for key in store.puts[-2:]] == ["packed-index", run_layout.END_MARKER_KEY]


def test_a_run_that_was_cut_off_can_be_continued() -> None:
    store = MemoryStore()
    run_files(store).save(step(0, "MSELoss_output_0"))
    run_files(store).save(step(1, "MSELoss_output_0"))
    assert store.exists(run_layout.index_key(0, "worker_0"))
    assert store.exists(run_layout.index_key(1, "worker_0"))


def test_collections_lost_to_a_full_disk_are_made_up_for() -> None:
    store = FullDisk()
    files = run_files(store)
    store.is_full = True
    with pytest.raises(OSError, match="No space"):
        files.save(step(0, "MSELoss_output_0"))
    store.is_full = False
    files.finish()
    assert collections(store).named("losses") is not None


def test_a_failed_opening_is_tried_again() -> None:
    stores = iter([None, MemoryStore()])

    def open_store() -> MemoryStore:
        store = next(stores)
        if store is None:
            raise StorageError("no endpoint")
        return store

    files = RunFiles(open_store, request=REQUEST, worker="worker_0", num_workers=1, ends_run=True)
    with pytest.raises(StorageError):
        files.save(step(0, "MSELoss_output_0"))
    files.save(step(1, "MSELoss_output_0"))
