"""A run whose store does not tell in time what it holds: nothing in it is overwritten, and nothing is silent."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import numpy as np
import pytest

from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.capture.steps.step_engine import Position
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.restart import added, moved_on, read_state
from trackside.capture.writing.run_files import RunFiles
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run_layout import END_MARKER_KEY, INDEX_PREFIX, capture_report_key, parse_index_key, state_key
from trackside.records.capture_report import LostStep, decode_report
from trackside.records.index_file import decode_index
from trackside.records.state_file import TrainingState, decode_states, encode_states
from trackside.storage.memory import MemoryStore
from trackside.trial.recorded.recorded_statistics import RecordedStatistics
from trackside.trial.trial import Trial

REQUEST = CaptureRequest((CollectionRequest("losses", Schedule(1)),))


class Unreadable(MemoryStore):
    """A store that can be written, and for a while not be listed."""

    is_down = False

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        if self.is_down:
            raise StorageUnavailableError(errno.EIO, "S3 is busy")
        yield from super().list(prefix, start_after=start_after)


def step(number: int, mode: str = "TRAIN", mode_step: int | None = None) -> StepTensors:
    value = np.full(1, float(number), "f4")
    return StepTensors(number, mode, number if mode_step is None else mode_step, 1.0, (("MSELoss_output_0", value),))


def run_files(store: MemoryStore, worker: str = "worker_0", **more: object) -> RunFiles:
    return RunFiles(lambda: store, request=REQUEST, worker=worker, num_workers=1, ends_run=True, **more)  # type: ignore[arg-type]


def indexes(store: MemoryStore) -> dict[int, tuple[str, int]]:
    found = {}
    for key in store.list(INDEX_PREFIX):
        parsed = parse_index_key(key)
        assert parsed is not None
        index = decode_index(store.get(key), key=key)
        found[parsed[0]] = (index.mode, index.mode_step)
    return found


@pytest.fixture
def store() -> Unreadable:
    """What a process left that was killed after step 4."""
    store = Unreadable()
    files = run_files(store, position=lambda: Position(5, {"TRAIN": 4, "EVAL": 1}))
    for number, mode, mode_step in ((0, "TRAIN", 0), (1, "EVAL", 0), (4, "TRAIN", 3)):
        files.save(step(number, mode, mode_step))
    return store


def test_steps_wait_for_their_numbers_and_go_on_after_those_that_are_there(store: Unreadable) -> None:
    before = {key: store.get(key) for key in store.list("events/")}
    files = run_files(store, position=lambda: Position(3, {"TRAIN": 2, "EVAL": 1}))
    files.resume_later()
    store.is_down = True
    for _ in range(2):
        with pytest.raises(StorageUnavailableError, match="busy"):
            files.save(step(0))
        files.lost(0, "S3 is busy")
    store.is_down = False
    files.save(step(1, "EVAL", 0))
    files.save(step(2, "TRAIN", 1))
    files.finish()
    assert indexes(store) == {0: ("TRAIN", 0), 1: ("EVAL", 0), 4: ("TRAIN", 3), 6: ("EVAL", 1), 7: ("TRAIN", 5)}
    assert {key: store.get(key) for key in before} == before
    assert decode_report(store.get(capture_report_key("worker_0")), key="").lost[0] == LostStep(5, "S3 is busy")
    (state,) = decode_states(store.get(state_key("worker_0")), key="")
    assert state == TrainingState(2, 7, 6, {"TRAIN": 5, "EVAL": 1})


def test_a_run_that_was_never_told_what_it_holds_is_left_as_it_was(store: Unreadable) -> None:
    before = {key: store.get(key) for key in store.list()}
    files = run_files(store)
    files.resume_later()
    store.is_down = True
    with pytest.raises(StorageUnavailableError):
        files.finish()
    store.is_down = False
    assert {key: store.get(key) for key in store.list()} == before


def test_a_run_that_is_ended_elsewhere_stays_open_and_tells_where_to_go_on() -> None:
    store = MemoryStore()
    files = run_files(store, position=lambda: Position(9, {"TRAIN": 9}), ends_elsewhere=True)
    files.save(step(3))
    files.finish()
    assert not store.exists(END_MARKER_KEY)
    assert run_files(store).resume() == Position(9, {"TRAIN": 9})


def test_losses_of_a_process_that_was_interrupted_are_not_forgotten(store: Unreadable) -> None:
    for number in (5, 6):
        files = run_files(store)
        files.resume()
        files.lost(number, "slow")
        files.save(step(number + 10))
        files.finish(is_interrupted=True)
        store.delete(END_MARKER_KEY)
    (report,) = Trial(store).lost_steps().values()
    assert (report.saved_steps, report.lost_steps, report.lost) == (2, 2, (LostStep(5, "slow"), LostStep(6, "slow")))


def test_a_damaged_report_is_damage_and_no_crash(store: Unreadable) -> None:
    store.put(capture_report_key("worker_0"), b"{")
    trial = Trial(store)
    assert trial.lost_steps() == {}
    assert [error.key for error in trial.damaged] == [capture_report_key("worker_0")]


def test_rows_of_statistics_wait_too_and_get_the_same_numbers() -> None:
    store = MemoryStore()
    known = [False]

    def start() -> Position:
        if not known[0]:
            raise StorageUnavailableError(errno.EIO, "S3 is busy")
        return Position(100, {"TRAIN": 90})

    log = StatisticsLog(store, worker="worker_0", started_ms=1, start=start)
    log.record({("Loss", "mean"): 0.5}, step=0, mode="TRAIN", mode_step=0, wall_time=1.0)
    with pytest.raises(StorageUnavailableError):
        log.flush()
    assert not list(store.list())
    known[0] = True
    log.record({("Loss", "mean"): 0.25}, step=1, mode="TRAIN", mode_step=1, wall_time=2.0)
    log.close()
    statistics = RecordedStatistics(store, report=lambda error: pytest.fail(str(error)))
    statistics.refresh()
    (column,) = statistics.columns("Loss", "mean", last_step=1000, mode=None)
    assert [(int(row), value) for row, value in zip(column.steps, column.values, strict=True)] == [
        (100, 0.5), (101, 0.25),
    ]  # fmt: skip


def test_the_furthest_of_all_workers_counts() -> None:
    store = MemoryStore()
    run_files(store, "worker_0").save(step(7))
    run_files(store, "worker_1").save(step(9))
    store.put(state_key("worker_0"), encode_states([TrainingState(2, 7, 7, {"TRAIN": 7})]))
    store.put(state_key("worker_1"), encode_states([TrainingState(1, 8, 8, {"TRAIN": 8, "EVAL": 3})]))
    assert read_state(store, None) == TrainingState(2, 9, 9, {"TRAIN": 9, "EVAL": 3})
    assert read_state(MemoryStore(), None) is None


def test_numbers_of_the_mode_global_are_those_of_all_steps() -> None:
    start = Position(10, {"TRAIN": 8})
    moved = moved_on(step(2, "GLOBAL"), start)
    assert (moved.step, moved.mode_step) == (12, 12)
    assert added(Position(3, {"EVAL": 1}), start) == Position(13, {"TRAIN": 8, "EVAL": 1})
