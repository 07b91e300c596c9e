"""Small steps share an event file where files can grow, and every reader finds each of them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from trackside.capture.steps.late_tensors import Row
from trackside.capture.steps.reduced_tensors import ReducedLayout
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing import event_files
from trackside.capture.writing.event_files import MOST_STEP_BYTES, MOST_STEP_TENSORS
from trackside.capture.writing.run_files import RunFiles
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


class Counted(MemoryStore):
    """Counts the calls that are not puts, and fails those that are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.failing = ""

    def append(self, key: str, data: bytes | bytearray | memoryview) -> int:
        self._called("append")
        return super().append(key, data)

    def exists(self, key: str) -> bool:
        self._called("exists")
        return super().exists(key)

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        if key.startswith("index/"):
            self._called("index")
        super().put(key, data)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.failing == name:
            self.failing = ""
            raise StorageUnavailableError("outage")


class TestPreparedSteps:
    """Values of several small steps stored in one go, before the indexes that promise them."""

    def saved(self, store: Counted, files: RunFiles, steps: list[StepTensors]) -> list[int]:
        """The steps that could not be saved."""
        files.prepare(steps)
        lost = []
        for one in steps:
            try:
                files.save(one)
            except StorageUnavailableError:
                lost.append(one.step)
        return lost

    def begun(self) -> tuple[Counted, RunFiles]:
        store = Counted()
        files = run_files(store)
        files.save(step(0))
        store.calls.clear()
        return store, files

    def test_take_one_append(self) -> None:
        store, files = self.begun()
        self.saved(store, files, [step(k) for k in range(1, 40)])
        files.save(step(40))
        assert store.calls == ["append"] + ["index"] * 39 + ["append", "index"]
        assert {place_of(store, k) for k in range(41)} == {event_key(0, WORKER)}
        assert [value_of(store, k) for k in range(41)] == list(range(41))
        files.finish()
        trial = Trial(store)
        trial.refresh()
        assert [float(trial.tensor("Loss_output_0").value(k)[0]) for k in trial.steps()] == list(range(41))

    def test_are_the_very_bytes_of_steps_saved_one_by_one(self) -> None:
        together, files = self.begun()
        self.saved(together, files, [step(k) for k in range(1, 20)])
        alone, files = self.begun()
        for k in range(1, 20):
            files.save(step(k))
        assert {key: together.get(key) for key in together.list("index/")} == {
            key: alone.get(key) for key in alone.list("index/")
        }
        assert together.get(event_key(0, WORKER)) == alone.get(event_key(0, WORKER))

    @pytest.mark.parametrize(
        "steps",
        [
            pytest.param([step(1), step(2, size=1000)], id="a large one among them"),
            pytest.param([step(1), step(2, tensors=MOST_STEP_TENSORS + 1)], id="one of many tensors"),
        ],
    )
    def test_are_small_ones_only(self, steps: list[StepTensors]) -> None:
        store, files = self.begun()
        files.prepare(steps)
        assert store.calls == []

    def test_the_first_of_all_is_not_prepared(self) -> None:
        store = Counted()
        run_files(store).prepare([step(0), step(1)])
        assert [*store.list()] == []

    def test_end_with_the_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(event_files, "MOST_FILE_BYTES", 500)
        store, files = self.begun()
        for first in (1, 11):
            self.saved(store, files, [step(k) for k in range(first, first + 10)])
        assert [value_of(store, k) for k in range(21)] == list(range(21))
        assert len({place_of(store, k) for k in range(21)}) > 2

    def test_an_outage_of_the_append_costs_no_step(self) -> None:
        store, files = self.begun()
        store.failing = "append"
        assert self.saved(store, files, [step(1), step(2), step(3)]) == []
        assert [value_of(store, k) for k in range(4)] == [0, 1, 2, 3]

    def test_an_index_that_fails_costs_its_own_step(self) -> None:
        store, files = self.begun()
        store.failing = "index"
        assert self.saved(store, files, [step(1), step(2), step(3)]) == [1]
        files.save(step(4))
        assert [value_of(store, k) for k in (0, 2, 3, 4)] == [0, 2, 3, 4]
        assert not store.exists(index_key(1, WORKER))

    def test_a_file_that_is_gone_costs_no_step(self) -> None:
        store, files = self.begun()
        store.delete(event_key(0, WORKER))
        assert self.saved(store, files, [step(1), step(2)]) == []
        assert [value_of(store, k) for k in (1, 2)] == [1, 2]

    def test_what_was_prepared_and_never_saved_is_forgotten(self) -> None:
        store, files = self.begun()
        files.prepare([step(1), step(2)])
        files.prepare([step(3), step(4)])
        self.saved(store, files, [step(5)])
        assert value_of(store, 5) == 5


def test_a_new_run_is_not_asked_for_each_large_step() -> None:
    store = Counted()
    files = run_files(store)
    for number in range(5):
        files.save(step(number, size=1000))
    assert store.calls.count("exists") <= 2, "whether the run has ended, and the like"
    files.save(step(3, size=1000))  # which is there
    assert [value_of(store, k) for k in range(5)] == list(range(5))


class Stopping(LocalStore):
    """A folder where `put_many` stores at most so many, as on a disk that is full."""

    def __init__(self, folder: Path, most: int = 10**9) -> None:
        super().__init__(folder)
        self.most, self.many = most, 0

    def put_many(self, objects: Sequence[tuple[str, bytes]]) -> int:
        self.many += 1
        return super().put_many(objects[: self.most]) if self.most else 0


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a run that are the same for equal steps."""
    kept = {"index", "events", "collections"}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] in kept
    }


class TestStepsAtOnce:
    """Both files of several steps in one call of the store."""

    @pytest.mark.parametrize("most", [0, 1, 2, 5, 10**9])
    @pytest.mark.parametrize(
        "sizes",
        [
            pytest.param([1] * 12, id="small"),
            pytest.param([1000] * 12, id="large"),
            pytest.param([1000, 1000, 1, 1, 1000, 1, 1000, 1000], id="mixed"),
            pytest.param([1, 0, 1, 1], id="one without values"),
            pytest.param([300_000] * 3, id="more than goes at once"),
        ],
    )
    def test_are_the_very_files_of_steps_saved_one_by_one(self, sizes: list[int], most: int, tmp_path: Path) -> None:
        together, alone = Stopping(tmp_path / "together", most), LocalStore(tmp_path / "alone")
        files = run_files(together)
        for number in range(0, 3 * len(sizes), len(sizes)):
            steps = [step(number + place, size=size) for place, size in enumerate(sizes)]
            files.prepare(steps)
            for each in steps:
                files.save(each)
        files.finish()
        one_by_one = run_files(alone)
        for number in range(3 * len(sizes)):
            one_by_one.save(step(number, size=sizes[number % len(sizes)]))
        one_by_one.finish()
        assert together.many > 0 or 0 in sizes
        with_values = [number for number in range(3 * len(sizes)) if sizes[number % len(sizes)]]
        assert [value_of(together, number) for number in with_values] == with_values
        # A step with an event file that was stored before its index failed is added to that file.
        if 0 not in sizes and not (most in {1, 5} and sizes[0] > 1):
            assert contents(tmp_path / "together") == contents(tmp_path / "alone")
        trial = Trial(together)
        trial.refresh()
        assert len(trial.steps()) == sum(map(bool, sizes)) * 3

    def test_a_full_disk_costs_the_steps_that_it_has_no_room_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = Stopping(tmp_path, most=4)  # two steps
        files = run_files(store)
        files.save(step(0, size=1000))
        steps = [step(number, size=1000) for number in range(1, 6)]
        files.prepare(steps)

        def full(key: str, data: bytes) -> None:
            raise StorageUnavailableError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(store, "put", full)
            lost = []
            for each in steps:
                try:
                    files.save(each)
                except StorageUnavailableError:
                    lost.append(each.step)
        assert lost == [3, 4, 5]
        files.save(step(6, size=1000))
        assert [value_of(store, number) for number in (0, 1, 2, 6)] == [0, 1, 2, 6]
        assert not any(store.exists(index_key(number, WORKER)) for number in lost)

    def test_a_run_that_was_removed_gets_none(self, tmp_path: Path) -> None:
        pytest.importorskip("fcntl")
        store = Stopping(tmp_path / "run")
        files = run_files(store)
        files.save(step(0, size=1000))
        shutil.rmtree(tmp_path / "run")
        late = [step(number, size=1000) for number in (1, 2)]  # of long ago, by their wall time
        files.prepare(late)
        for each in late:
            files.save(each)
        assert not (tmp_path / "run").exists()

    def test_reductions_go_the_same_way(self, tmp_path: Path) -> None:
        together, alone = Stopping(tmp_path / "together"), LocalStore(tmp_path / "alone")
        layout = ReducedLayout([("a.weight", ("mean", "max")), ("b.weight", ("mean", "max"))])

        def reduced(number: int) -> StepTensors:
            numbers = np.full(4, number + 1, np.float32)
            return StepTensors(number, "TRAIN", number, 7.0, (), reduced=(Row(layout, numbers),))

        steps = [reduced(number) for number in range(8)]
        files, one_by_one = run_files(together), run_files(alone)
        files.save(steps[0])
        files.prepare(steps[1:])
        for each in steps[1:]:
            files.save(each)
        for each in steps:
            one_by_one.save(each)
        assert together.many == 1
        assert contents(tmp_path / "together") == contents(tmp_path / "alone")
