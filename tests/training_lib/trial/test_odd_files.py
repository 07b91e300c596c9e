"""Something else stands where a file of a run was: it is told by name, nothing is waited for, and the rest is read."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing import event_files
from trackside.capture.writing.run_files import RunFiles
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest
from trackside.contracts.errors import RecordError
from trackside.contracts.run_layout import (
    COLLECTIONS_PREFIX,
    PACKED_INDEX_PREFIX,
    collections_key,
    event_key,
    index_key,
)
from trackside.records.index_file import Index, IndexEntry, encode_index
from trackside.runs.recorded_run import read_run
from trackside.storage.local import LocalStore
from trackside.trial.steps.packed_index import rebuild_packed_index
from trackside.trial.trial import open_trial

WORKER = "worker_0"
STEPS = 20


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of 20 steps, each with an event file of its own, with a packed index, and statistics at each."""
    monkeypatch.setattr(event_files, "MOST_STEP_TENSORS", 0)
    folder = tmp_path / "run"
    request = CaptureRequest((CollectionRequest("weights"),))
    store = LocalStore(folder / "debug-output")
    files = RunFiles(lambda: store, request=request, worker=WORKER, num_workers=1, ends_run=True, clock=lambda: 1.0)
    log = StatisticsLog(LocalStore(folder / "statistics"), worker=WORKER, started_ms=1)
    for step in range(STEPS):
        log.record({("Net_w", "mean"): float(step)}, step=step, mode="TRAIN", mode_step=step, wall_time=1.0)
        weight = np.full(3, step, "f4")
        files.save(StepTensors(step, "TRAIN", step, 1.0, (("Net_w", weight), ("Net_weight", weight))))
    log.close()
    files.finish()
    (tmp_path / "outside").write_bytes(b"{}")
    return folder


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """What takes a terabyte must fail wherever the tests run."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + (4 << 30), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def link_out(path: Path) -> None:
    path.symlink_to(path.parents[len(path.parts) - path.parts.index("run") - 1] / "outside")


def ring(path: Path) -> None:
    path.symlink_to(path.name)


def hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def listener(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as it:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            it.bind(path.name)
        finally:
            os.chdir(here)


ODD = [
    pytest.param(link_out, "leads out of it", id="a link that leads out"),
    pytest.param(ring, "no file", id="a ring of links"),
    pytest.param(hole, "", id="a terabyte of nothing"),
]
UNLISTED = [
    pytest.param(os.mkfifo, "", id="a pipe"),
    pytest.param(listener, "", id="a socket"),
    pytest.param(lambda path: path.mkdir(), "", id="a folder"),
]
Replace = Callable[[Path], None]


def replaced(run: Path, key: str, replace: Replace) -> None:
    path = run / key
    path.unlink()
    replace(path)


def without_packed_index(run: Path) -> None:
    for path in (run / "debug-output" / PACKED_INDEX_PREFIX).rglob("*.tpi"):
        path.unlink()


def damage_of(damaged: tuple[RecordError, ...], key: str) -> RecordError:
    (found,) = [error for error in damaged if error.key == key]
    return found


@pytest.mark.parametrize(("replace", "said"), ODD)
def test_an_index(run: Path, replace: Replace, said: str) -> None:
    without_packed_index(run)
    replaced(run, f"debug-output/{index_key(7, WORKER)}", replace)
    trial = open_trial(str(run))
    assert said in damage_of(trial.damaged, index_key(7, WORKER)).what
    assert trial.parts.steps.is_damaged(7)
    for step in set(range(STEPS)) - {7}:
        assert trial.value("Net_w", step=step, worker=WORKER).tolist() == [step] * 3
    trial.refresh()
    assert len(trial.damaged) == 1


@pytest.mark.parametrize(("replace", "said"), [*ODD, *UNLISTED])
def test_an_event_file(run: Path, replace: Replace, said: str) -> None:
    replaced(run, f"debug-output/{event_key(7, WORKER)}", replace)
    trial = open_trial(str(run))
    for step in range(STEPS):
        if step == 7:
            with pytest.raises(RecordError) as damage:
                trial.value("Net_weight", step=step, worker=WORKER)
        else:
            assert trial.value("Net_weight", step=step, worker=WORKER).tolist() == [step] * 3
    assert said in damage.value.what
    (column,) = trial.columns("Net_weight", "max", last_step=STEPS, mode=None)
    assert column.steps.tolist() == [step for step in range(STEPS) if step != 7]
    assert said in damage_of(trial.damaged, event_key(7, WORKER)).what


@pytest.mark.parametrize(("replace", "said"), ODD)
def test_a_collections_file(run: Path, replace: Replace, said: str) -> None:
    replaced(run, f"debug-output/{collections_key(WORKER)}", replace)
    trial = open_trial(str(run))
    assert said in damage_of(trial.damaged, collections_key(WORKER)).what
    assert trial.tensor_names(collection="weights") == ("Net_weight",), "by what the word means"
    assert len(trial.steps()) == STEPS


@pytest.mark.parametrize(("replace", "said"), ODD)
def test_a_packed_index(run: Path, replace: Replace, said: str) -> None:
    (path,) = (run / "debug-output" / PACKED_INDEX_PREFIX).rglob("*.tpi")
    key = path.relative_to(run / "debug-output").as_posix()
    replaced(run, f"debug-output/{key}", replace)
    trial = open_trial(str(run))
    assert said in damage_of(trial.damaged, key).what
    assert len(trial.steps()) == STEPS, "read from smdebug's index"


@pytest.mark.parametrize(("replace", "said"), ODD)
def test_a_statistics_segment(run: Path, replace: Replace, said: str) -> None:
    (path,) = (run / "statistics").rglob("*.tss")
    key = path.relative_to(run / "statistics").as_posix()
    replaced(run, f"statistics/{key}", replace)
    trial = open_trial(str(run))
    (column,) = trial.columns("Net_w", "mean", last_step=STEPS, mode=None)
    assert column.values.tolist() == [*range(STEPS)], "from the saved tensors"
    trial.refresh()
    assert said in damage_of(trial.damaged, key).what


@pytest.mark.parametrize(("replace", "said"), ODD)
def test_an_index_that_is_packed_anew(run: Path, replace: Replace, said: str) -> None:
    replaced(run, f"debug-output/{index_key(7, WORKER)}", replace)
    assert rebuild_packed_index(LocalStore(run / "debug-output")) == STEPS - 1
    trial = open_trial(str(run))
    assert said in damage_of(trial.damaged, index_key(7, WORKER)).what


@pytest.mark.parametrize("key", ["rule-request.json", "rule-output/verdicts.jsonl", "rule-output/progress.json"])
@pytest.mark.parametrize("replace", [pytest.param(hole, id="hole"), pytest.param(os.mkfifo, id="pipe")])
def test_what_lies_beside_the_tensors(run: Path, key: str, replace: Replace) -> None:
    (run / key).parent.mkdir(exist_ok=True)
    replace(run / key)
    recorded = read_run(str(run))
    assert (len(recorded.steps), recorded.verdicts, recorded.rules) == (STEPS, (), ())


def test_a_record_that_the_index_and_its_own_header_call_large_is_asked_for_where_its_header_is_right(
    run: Path,
) -> None:
    """A hole that begins with a length is not fetched: no checksum says that a writer meant it."""
    store = LocalStore(run / "debug-output")
    without_packed_index(run)
    length = 1 << 33
    path = run / "debug-output" / event_key(7, WORKER)
    path.write_bytes((length - 16).to_bytes(8, "little"))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    entries = (IndexEntry("Net_w", 0, length),)
    store.put(index_key(7, WORKER), encode_index(Index("TRAIN", 7, event_key(7, WORKER), entries)))
    trial = open_trial(str(run))
    with pytest.raises(RecordError, match="checksum of a record's length"):
        trial.value("Net_w", step=7, worker=WORKER)


def test_what_stands_where_nothing_was_is_passed_over(run: Path) -> None:
    for place in ("index/000000000", "events/000000000007", "packed-index/worker_0", COLLECTIONS_PREFIX):
        folder = run / "debug-output" / place
        folder.mkdir(parents=True, exist_ok=True)
        ring(folder / "x")
        os.mkfifo(folder / "y")
        (folder / "z").symlink_to(run, target_is_directory=True)
    trial = open_trial(str(run))
    assert len(trial.steps()) == STEPS
    assert trial.damaged == ()


@pytest.mark.parametrize("key", ["debug-output/training_job_end.ts", "rule-request.json"])
@pytest.mark.parametrize("replace", [pytest.param(link_out, id="link out"), pytest.param(ring, id="ring")])
def test_a_marker(run: Path, key: str, replace: Replace) -> None:
    (run / key).unlink(missing_ok=True)
    replace(run / key)
    trial = open_trial(str(run))
    assert len(trial.steps()) in {STEPS, STEPS - 1}
    assert trial.value("Net_w", step=3, worker=WORKER).tolist() == [3] * 3
