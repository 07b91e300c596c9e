"""A process that was killed, and the next one of the same run."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.patience import HANGS_SECONDS
from trackside.capture.steps.step_engine import Position
from trackside.capture.writing.restart import further, position_after, read_state, state_at, within_seconds, write_state
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run_layout import END_MARKER_KEY, INDEX_PREFIX, index_key, parse_index_key, state_key
from trackside.records.index_file import decode_index
from trackside.records.state_file import TrainingState
from trackside.records.step_file import encode_step, write_step
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore

WORKER = "worker_0"


def save(store: MemoryStore, step: int, mode: str, mode_step: int, worker: str = WORKER) -> None:
    tensors = [("MSELoss_output_0", np.ones(1, "f4"))]
    write_step(store, encode_step(tensors, step=step, mode=mode, mode_step=mode_step, worker=worker, wall_time=1.0))


def test_a_new_run_begins_at_the_start() -> None:
    assert position_after(read_state(MemoryStore(), WORKER)) == Position()


def test_a_state_says_where_to_go_on() -> None:
    store = MemoryStore()
    state = state_at(Position(12, {"TRAIN": 10, "EVAL": 2, "PREDICT": 0}), training_run=1, last_saved_step=10)
    assert state == TrainingState(1, 11, 10, {"TRAIN": 9, "EVAL": 1})
    write_state(store, WORKER, state)
    assert read_state(store, WORKER) == state
    assert position_after(state) == Position(12, {"TRAIN": 10, "EVAL": 2})


def test_steps_saved_after_the_state_count() -> None:
    store = MemoryStore()
    for step in range(4):
        save(store, step, "TRAIN", step)
    write_state(store, WORKER, TrainingState(3, 2, 2, {"TRAIN": 2}))
    save(store, 4, "EVAL", 0)
    save(store, 5, "TRAIN", 4)
    save(store, 9, "TRAIN", 8, worker="worker_1")
    assert read_state(store, WORKER) == TrainingState(3, 5, 5, {"TRAIN": 4, "EVAL": 0})


@pytest.mark.parametrize("damage", [None, b"", b"{", b"[]", b'[{"training-run": -1}]'])
def test_without_a_state_or_with_a_damaged_one_the_index_tells(damage: bytes | None) -> None:
    store = MemoryStore()
    save(store, 0, "TRAIN", 0)
    save(store, 1005, "TRAIN", 1003)
    if damage is not None:
        store.put(state_key(WORKER), damage)
    assert position_after(read_state(store, WORKER)) == Position(1006, {"TRAIN": 1004})


def test_a_damaged_index_still_counts_by_its_name() -> None:
    store = MemoryStore()
    save(store, 3, "TRAIN", 3)
    store.put(index_key(7, WORKER), b"{")
    assert position_after(read_state(store, WORKER)) == Position(8, {"TRAIN": 4})


SLOW = TrainingState(3, 4, None, {"TRAIN": 4})
FAST = TrainingState(1, 9, 8, {"TRAIN": 2, "EVAL": 7})


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        pytest.param(None, None, None, id="none"),
        pytest.param(SLOW, None, SLOW, id="the first alone"),
        pytest.param(None, FAST, FAST, id="the second alone"),
        pytest.param(SLOW, FAST, TrainingState(3, 9, 8, {"TRAIN": 4, "EVAL": 7}), id="the further of each count"),
        pytest.param(FAST, SLOW, TrainingState(3, 9, 8, {"TRAIN": 4, "EVAL": 7}), id="in either order"),
        pytest.param(SLOW, SLOW, SLOW, id="the same"),
    ],
)
def test_of_two_records_the_further_counts(
    one: TrainingState | None, other: TrainingState | None, both: TrainingState | None
) -> None:
    assert further(one, other) == both


def test_a_store_that_hangs_is_waited_for_so_long_and_its_errors_are_told() -> None:
    released = threading.Event()

    def hang() -> Position:
        released.wait(HANGS_SECONDS)
        return Position()

    assert within_seconds(hang, 0.01) is None
    released.set()

    def fail() -> Position:
        raise StorageUnavailableError(errno.EIO, "gone")

    with pytest.raises(StorageUnavailableError, match="gone"):
        within_seconds(fail, HANGS_SECONDS)
    assert within_seconds(lambda: Position(3), HANGS_SECONDS) == Position(3)


SCRIPT = """
import sys, time
import numpy as np
from trackside.capture.ground.guard import Guard
from trackside.capture.steps.step_engine import StepEngine
from trackside.capture.writing.run_files import RunFiles
from trackside.capture.writing.writer import Writer
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.storage.local import LocalStore

folder, ending = sys.argv[1:]
request = CaptureRequest((CollectionRequest("losses", Schedule(1)),))
engine = StepEngine(request)
files = RunFiles(lambda: LocalStore(folder), request=request, worker="worker_0", num_workers=1, ends_run=True,
                 position=engine.position, restarts=True)
writer = Writer(files, guard=Guard())
engine.resume(files.resume())
writer.start()
engine.connect(writer)
for mode in ("TRAIN", "TRAIN", "EVAL", "TRAIN"):
    engine.set_mode(mode)
    engine.open_step.add_loss("MSELoss", np.ones(1, "f4"))
    engine.end_step()
if ending == "killed":
    writer.flush(600)
    print("ready", flush=True)
    time.sleep(3600)
writer.close(600, is_interrupted=ending == "interrupted")
"""


def train(folder: Path, ending: str) -> int:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, folder, ending], stdout=subprocess.PIPE)
    if ending == "killed":
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    process.communicate(timeout=HANGS_SECONDS)
    return process.returncode


def test_a_restarted_process_continues_the_steps_of_all_modes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert train(tmp_path, "killed") == -signal.SIGKILL
    assert train(tmp_path, "interrupted") == 0
    assert not store.exists(END_MARKER_KEY), "it is expected back"
    assert train(tmp_path, "ended") == 0
    assert store.exists(END_MARKER_KEY)
    found = []
    for key in store.list(INDEX_PREFIX):
        step = parse_index_key(key)
        index = decode_index(store.get(key), key=key)
        found.append((step and step[0], index.mode, index.mode_step))
    assert found == [
        *[(0, "TRAIN", 0), (1, "TRAIN", 1), (2, "EVAL", 0), (3, "TRAIN", 2)],
        *[(4, "TRAIN", 3), (5, "TRAIN", 4), (6, "EVAL", 1), (7, "TRAIN", 5)],
        *[(8, "TRAIN", 6), (9, "TRAIN", 7), (10, "EVAL", 2), (11, "TRAIN", 8)],
    ]
    assert train(tmp_path, "ended") == 1, "a run that has ended is not added to"
