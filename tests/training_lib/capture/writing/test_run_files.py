"""The files of a run, as readers find them."""

from __future__ import annotations

import errno
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from trackside.capture.steps.late_tensors import Row, RowLayout
from trackside.capture.steps.step_engine import Position
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.run_files import RunFiles
from trackside.contracts import run_layout
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import ConfigurationError, StorageError
from trackside.records.capture_report import CaptureReport, LostStep, decode_report
from trackside.records.collections_file import Collections, ReductionRecord, decode_collections
from trackside.records.index_file import ShapeEntry, decode_index
from trackside.records.state_file import TrainingState, decode_states
from trackside.records.tfevents import read_records
from trackside.storage.local import LocalStore
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


def test_a_rank_that_comes_late_adds_to_the_run_that_rank_0_has_ended_already() -> None:
    """In a training of seconds rank 0 may be done before another has stored anything; an older run has its files."""
    store = MemoryStore()
    store.put(run_layout.END_MARKER_KEY, b"")
    run_files(store, ends_run=False).save(step(0, "MSELoss_output_0"))
    assert store.exists(run_layout.collections_key("worker_0"))
    with pytest.raises(ConfigurationError, match="has ended"):
        run_files(store, ends_run=False).save(step(1, "MSELoss_output_0"))


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


def test_a_step_is_not_lost_for_want_of_its_collections_file() -> None:
    class FullAfterTheStep(FullDisk):
        def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
            self.is_full = key.startswith("collections/") and not has_room
            super().put(key, data)

    store, has_room = FullAfterTheStep(), False
    files = run_files(store)
    files.save(step(0, "MSELoss_output_0"))
    assert store.exists(run_layout.index_key(0, "worker_0"))
    assert not store.exists(run_layout.collections_key("worker_0"))
    has_room = True
    files.save(step(1, "MSELoss_output_0"))
    assert collections(store).named("losses") is not None


def test_steps_of_a_folder_that_was_removed_are_gone_with_it(tmp_path: Path) -> None:
    """The writer is a little late; what it stores after the removal would be taken for a part of the next run."""
    pytest.importorskip("fcntl")
    store = LocalStore(tmp_path / "run")
    files = RunFiles(lambda: store, request=REQUEST, worker="worker_0", num_workers=1, ends_run=True)
    files.save(step(0, "MSELoss_output_0"))
    late = [step(number, "MSELoss_output_0") for number in (1, 2)]
    shutil.rmtree(tmp_path / "run")
    files.prepare(late)
    for each in late:
        files.save(each)
    assert not (tmp_path / "run").exists()
    on = [replace(step(number, "MSELoss_output_0"), wall_time=time.time() + 60) for number in (3, 4)]
    for each in on:  # the training goes on
        files.save(each)
    assert sorted(name.stem for name in (tmp_path / "run").rglob("*.json") if "index" in name.parts) == [
        Path(run_layout.index_key(number, "worker_0")).stem for number in (3, 4)
    ]


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


def test_of_a_tensor_is_stored_what_its_due_collections_ask() -> None:
    request = CaptureRequest(
        (
            CollectionRequest("weights", Schedule(2), reductions=("mean", "abs_max")),
            CollectionRequest("outputs", Schedule(3), save_raw_tensor=False, save_shape=True),
            CollectionRequest("losses", mode_schedules=(("EVAL", Schedule(1)),), reductions=("mean",)),
        )
    )
    store = MemoryStore()
    files = RunFiles(lambda: store, request=request, worker="worker_0", num_workers=1, ends_run=True)
    tensors = (
        ("MSELoss_output_0", np.array([3.0], "f4")),
        ("Net_fc.weight", np.array([[-4.0, 1.0]], "f4")),
        ("fc_output_0", np.ones((2, 3), "f4")),
    )
    due = frozenset({"weights", "outputs", "losses"})
    files.save(StepTensors(0, "TRAIN", 0, 7.0, tensors, due, {"fc_output_0": frozenset({"outputs"})}))
    event, key = run_layout.event_key(0, "worker_0"), run_layout.index_key(0, "worker_0")
    assert {r.name: r.value.tolist() for r in read_records(store.get(event), key=event)} == {
        "MSELoss_output_0": [3.0],
        "smdebug/reductions/mean/Net_fc.weight": -1.5,
        "smdebug/reductions/abs_max/Net_fc.weight": 4.0,
    }
    assert decode_index(store.get(key), key=key).shapes == (ShapeEntry("fc_output_0", "fc_output_0", (2, 3)),)
    found = collections(store)
    weights, outputs, losses = (found.named(name) for name in ("weights", "outputs", "losses"))
    assert weights is not None
    assert outputs is not None
    assert losses is not None
    assert weights.reduction == ReductionRecord(False, ("mean", "abs_max"), False)
    assert outputs.reduction == ReductionRecord(False, (), True)
    assert outputs.tensor_names == ("fc_output_0",)
    assert losses.reduction == ReductionRecord(True)
    assert not losses.save_histogram
    assert losses.schedules == {"TRAIN": Schedule(), "EVAL": Schedule(1), "PREDICT": Schedule(), "GLOBAL": Schedule()}


def test_a_step_of_shapes_alone_has_no_event_file() -> None:
    request = CaptureRequest((CollectionRequest("weights", save_raw_tensor=False, save_shape=True),))
    store = MemoryStore()
    files = RunFiles(lambda: store, request=request, worker="worker_0", num_workers=1, ends_run=True)
    due = frozenset({"weights"})
    for number in range(2):
        files.save(StepTensors(number, "TRAIN", number, 7.0, (("Net_fc.weight", np.ones((2, 3))),), due))
    files.finish()
    assert list(store.list(run_layout.EVENTS_PREFIX)) == []
    key = run_layout.index_key(1, "worker_0")
    assert decode_index(store.get(key), key=key).event_key is None


def test_members_that_only_the_adapter_knows_are_written_down_as_they_come() -> None:
    store = MemoryStore()
    files = run_files(store)
    tensors = (("CrossEntropyLoss_input_1", np.ones(2)),)
    files.save(StepTensors(0, "TRAIN", 0, 7.0, tensors))
    files.save(
        StepTensors(1, "TRAIN", 1, 7.0, tensors, collections={"CrossEntropyLoss_input_1": frozenset({"labels"})})
    )
    labels = collections(store).named("labels")
    assert labels is not None
    assert labels.tensor_names == ("CrossEntropyLoss_input_1",)
    assert labels.schedules is None


def test_lost_steps_are_told_in_the_run() -> None:
    store = MemoryStore()
    files = run_files(store)
    files.lost(3, "storage is slow")
    files.save(step(4, "MSELoss_output_0"))
    files.lost(5, "storage is slow")
    files.finish()
    key = run_layout.capture_report_key("worker_0")
    slow = "storage is slow"
    expected = CaptureReport(saved_steps=1, lost_steps=2, lost=(LostStep(3, slow), LostStep(5, slow)))
    assert decode_report(store.get(key), key=key) == expected


def test_a_run_without_losses_has_no_report() -> None:
    store = MemoryStore()
    files = run_files(store)
    files.save(step(0, "MSELoss_output_0"))
    files.finish()
    assert not store.exists(run_layout.capture_report_key("worker_0"))


@pytest.mark.parametrize(
    ("is_interrupted", "restarts", "is_marked"),
    [
        pytest.param(True, True, False, id="interrupted-and-expected-back"),
        pytest.param(True, False, True, id="interrupted-for-good"),
        pytest.param(False, True, True, id="done"),
    ],
)
def test_a_run_that_is_expected_back_stays_open(is_interrupted: bool, restarts: bool, is_marked: bool) -> None:
    store = MemoryStore()
    files = RunFiles(
        lambda: store, request=REQUEST, worker="worker_0", num_workers=1, ends_run=True, restarts=restarts,
        position=lambda: Position(6, {"TRAIN": 6}),
    )  # fmt: skip
    files.save(step(4, "MSELoss_output_0"))
    files.finish(is_interrupted=is_interrupted)
    assert store.exists(run_layout.END_MARKER_KEY) == is_marked
    key = run_layout.state_key("worker_0")
    assert decode_states(store.get(key), key=key) == (TrainingState(1, 5, 4, {"TRAIN": 5}),)


def test_the_state_is_not_stored_with_every_step() -> None:
    seconds = [0.0]
    store = MemoryStore()
    files = RunFiles(
        lambda: store, request=REQUEST, worker="worker_0", num_workers=1, ends_run=True,
        position=lambda: Position(6, {"TRAIN": 6}), clock=lambda: seconds[0],
    )  # fmt: skip
    key = run_layout.state_key("worker_0")
    for number, second, is_stored in [(0, 0.0, True), (1, 5.0, False), (2, 9.9, False), (3, 10.0, True)]:
        store.delete(key)
        seconds[0] = second
        files.save(step(number, "MSELoss_output_0"))
        assert store.exists(key) == is_stored


def test_files_for_tensorboard_follow_the_steps() -> None:
    store, tensorboard = MemoryStore(), MemoryStore()
    request = CaptureRequest((CollectionRequest("weights", Schedule(1), reductions=("mean",)),))
    files = RunFiles(
        lambda: store, request=request, worker="worker_0", num_workers=1, ends_run=True,
        open_tensorboard=lambda: tensorboard,
    )  # fmt: skip
    files.save(StepTensors(0, "TRAIN", 0, 7.0, (("Net_fc.weight", np.ones(3)),), frozenset({"weights"})))
    files.finish()
    (key,) = tensorboard.list()
    assert b"weights/Net_fc.weight" in tensorboard.get(key)


class TestRows:
    """A step with a row is stored as one with the same tensors, one by one."""

    LAYOUTS = (
        RowLayout(("row/a", "row/b"), frozenset({"own"})),
        RowLayout(("row/a", "row/b", "row/c"), frozenset({"own"})),
    )

    def step(self, number: int) -> StepTensors:
        layout = self.LAYOUTS[number > 2]
        numbers = np.arange(len(layout.record_names), dtype=np.float64).reshape(-1, 1) + number
        due = frozenset({"mine", "own"})
        return replace(step(number, "loss"), due=due, rows=(Row(layout, numbers),))

    @pytest.mark.parametrize(
        "collections_",
        [
            pytest.param((), id="in no requested collection"),
            pytest.param((CollectionRequest("own"),), id="whole"),
            pytest.param((CollectionRequest("own", reductions=("mean", "max")),), id="reduced"),
            pytest.param((CollectionRequest("mine", include_regex=("row/b",), reductions=("min",)),), id="one reduced"),
            pytest.param((CollectionRequest("own", save_shape=True),), id="with its shape"),
            pytest.param(
                (CollectionRequest("own", reductions=("max",), save_shape=True),), id="reduced, with its shape"
            ),
            pytest.param((CollectionRequest("own", reductions=("max",), save_raw_tensor=True),), id="both"),
        ],
    )
    @pytest.mark.parametrize("has_tensorboard", [False, True])
    @pytest.mark.parametrize("together", [False, True])
    def test_what_readers_find(
        self, collections_: tuple[CollectionRequest, ...], has_tensorboard: bool, together: bool, tmp_path: Path
    ) -> None:
        found = []
        for name in ("rows", "tensors"):
            store, boards = LocalStore(tmp_path / name), MemoryStore()
            files = RunFiles(
                lambda store=store: store,  # type: ignore[misc]  # mypy knows no default of a lambda
                request=CaptureRequest(collections_),
                worker="worker_0",
                num_workers=1,
                ends_run=True,
                open_tensorboard=(lambda boards=boards: boards) if has_tensorboard else None,  # type: ignore[misc]
            )
            steps = [self.step(number) for number in range(6)]
            steps = steps if name == "rows" else [each.without_rows() for each in steps]
            files.save(steps[0])
            if together:
                files.prepare(steps[1:])
            for each in steps[1:]:
                files.save(each)
            files.finish()
            found.append((self.tensors(store), self.collections(store), self.boards(boards)))
        assert found[0] == found[1]
        assert len(found[0][0]) >= 6
        assert bool(found[0][2]) == has_tensorboard

    def tensors(self, store: LocalStore) -> list[tuple[int, object]]:
        """Return the content of each index, and the tensors at its places."""
        found: list[tuple[int, object]] = []
        for number in range(6):
            key = run_layout.index_key(number, "worker_0")
            index = decode_index(store.get(key), key=key)
            assert index.event_key is not None
            for entry in index.entries:
                data = store.get(index.event_key, start=entry.start, length=entry.length)
                (record,) = read_records(data, key=key)
                assert record.name == entry.name
                value = (record.value.dtype.str, record.value.shape, record.value.tolist())
                found.append((number, (record.name, value, record.step, record.mode_step, record.wall_time)))
            found += [(number, ("shape", shape)) for shape in index.shapes]
        return sorted(found, key=str)

    def collections(self, store: LocalStore) -> dict[str, set[str]]:
        key = run_layout.collections_key("worker_0")
        return {c.name: set(c.tensor_names) for c in decode_collections(store.get(key), key=key).collections}

    def boards(self, store: MemoryStore) -> list[bytes]:
        return [store.get(key) for key in store.list()]
