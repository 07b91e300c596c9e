"""Small steps share an event file where files can grow, and every reader finds each of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from trackside.capture import event_files
from trackside.capture.event_files import MOST_STEP_BYTES, MOST_STEP_TENSORS
from trackside.capture.run_files import RunFiles
from trackside.capture.writer import StepTensors
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run_layout import PACKED_INDEX_PREFIX, event_key, index_key
from trackside.records.index_file import decode_index
from trackside.records.tfevents import decode_record
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.trial.trial import Trial

REQUEST = CaptureRequest((CollectionRequest("losses", Schedule(1)),))
WORKER = "worker_0"


class OnlyWhole:
    """A store whose objects cannot grow, as S3."""

    def __init__(self) -> None:
        store = MemoryStore()
        self.uri = "s3://bucket/run"
        self.put, self.get, self.exists = store.put, store.get, store.exists
        self.list, self.delete = store.list, store.delete


def run_files(store: Store) -> RunFiles:
    return RunFiles(lambda: store, request=REQUEST, worker=WORKER, num_workers=1, ends_run=True)


def step(number: int, *, size: int = 1, tensors: int = 1, value: float | None = None) -> StepTensors:
    content = np.full(size, number if value is None else value, np.float32)
    named = tuple((f"Loss_output_{k}", content) for k in range(tensors))
    return StepTensors(number, "TRAIN", number, 7.0, named)


def place_of(store: Store, number: int) -> str:
    index = decode_index(store.get(index_key(number, WORKER)), key="k")
    assert index.event_key is not None
    return index.event_key


def value_of(store: Store, number: int) -> float:
    """What smdebug's index says, followed as smdebug does: it looks at nothing but that file and that place."""
    index = decode_index(store.get(index_key(number, WORKER)), key="k")
    assert index.event_key is not None
    (entry,) = index.entries
    data = store.get(index.event_key, start=entry.start, length=entry.length)
    record = decode_record(data, key=index.event_key, offset=entry.start)
    assert (record.step, record.mode_step) == (number, number)
    return float(record.value[0])


def test_small_steps_share_one_file(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    files = run_files(store)
    for number in range(50):
        files.save(step(number * 3))
    assert {place_of(store, number * 3) for number in range(50)} == {event_key(0, WORKER)}
    assert [value_of(store, number * 3) for number in range(50)] == [number * 3 for number in range(50)]
    assert [*store.list("events/")] == [event_key(0, WORKER)]


@pytest.mark.parametrize("is_packed", [True, False])
def test_a_trial_reads_them(tmp_path: Path, is_packed: bool) -> None:
    store = LocalStore(tmp_path)
    files = run_files(store)
    for number in range(40):
        files.save(step(number))
    files.finish()
    if not is_packed:
        shutil.rmtree(tmp_path / PACKED_INDEX_PREFIX.rstrip("/"))
    trial = Trial(store)
    trial.refresh()
    tensor = trial.tensor("Loss_output_0")
    assert [float(tensor.value(number)[0]) for number in range(40)] == [float(number) for number in range(40)]
    assert not trial.damaged


@pytest.mark.parametrize(
    "large",
    [
        pytest.param({"size": MOST_STEP_BYTES // 4 + 1}, id="many bytes"),
        pytest.param({"tensors": MOST_STEP_TENSORS + 1}, id="many tensors"),
    ],
)
def test_a_large_step_has_its_own_file_and_is_followed_by_none(tmp_path: Path, large: dict[str, int]) -> None:
    store = LocalStore(tmp_path)
    files = run_files(store)
    for number in range(6):
        files.save(step(number, **(large if number in {2, 3} else {})))
    assert [place_of(store, number) for number in range(6)] == [event_key(own, WORKER) for own in (0, 0, 2, 3, 4, 4)]


def test_a_file_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files, "MOST_FILE_BYTES", 500)
    store = LocalStore(tmp_path)
    files = run_files(store)
    for number in range(30):
        files.save(step(number))
    assert 3 < len([*store.list("events/")]) < 15
    assert [value_of(store, number) for number in range(30)] == [*range(30)]


def test_where_objects_cannot_grow_every_step_has_its_own_file() -> None:
    store = OnlyWhole()
    files = run_files(store)
    for number in range(3):
        files.save(step(number))
    assert [place_of(store, number) for number in range(3)] == [event_key(number, WORKER) for number in range(3)]


@pytest.mark.parametrize("size", [1, MOST_STEP_BYTES], ids=["small", "large"])
def test_a_restart_that_saves_steps_again_spoils_no_other(tmp_path: Path, size: int) -> None:
    """The step that an earlier process named a shared file after is saved again: the file is added to."""
    store = LocalStore(tmp_path)
    first = run_files(store)
    for number in range(10, 20):
        first.save(step(number))
    again = run_files(store)
    again.save(step(10, size=size, value=-1))
    assert [value_of(store, number) for number in range(10, 20)] == [-1, *range(11, 20)]


def test_a_file_that_is_gone_costs_no_later_step(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    files = run_files(store)
    files.save(step(0))
    store.delete(event_key(0, WORKER))
    for number in (1, 2):
        files.save(step(number))
    assert [value_of(store, number) for number in (1, 2)] == [1, 2]
    assert place_of(store, 2) == event_key(1, WORKER)


def test_after_a_failure_a_new_file_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    files = run_files(store)
    files.save(step(0))

    def half(key: str, data: bytes) -> int:
        MemoryStore.append(store, key, data[: len(data) // 2])
        raise StorageUnavailableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", half)
        with pytest.raises(StorageUnavailableError):
            files.save(step(1))
    assert not store.exists(index_key(1, WORKER))
    for number in (2, 3):
        files.save(step(number))
    assert [value_of(store, number) for number in (0, 2, 3)] == [0, 2, 3]
    assert place_of(store, 3) == event_key(2, WORKER)
