"""The list of checkpoints as a part of the writer thread: written again, gone, resumed, an outage."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackside.capture.steps.step_engine import Position
from trackside.capture.writing.checkpoints import CheckpointsFile
from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run_layout import checkpoints_key
from trackside.records.checkpoints_file import read_checkpoints
from trackside.storage.memory import MemoryStore


class Clock:
    """Seconds that a test moves on."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def file_in(store: MemoryStore, *, start: int = 0, clock: Clock | None = None) -> CheckpointsFile:
    return CheckpointsFile(lambda: store, worker="worker_0", start=lambda: Position(start), monotonic=clock or Clock())


def written(folder: Path, name: str) -> str:
    (folder / name).write_bytes(b"weights")
    return str(folder / name)


def stored(store: MemoryStore) -> list[tuple[int, str]]:
    return [(one.step, Path(one.path).name) for one in read_checkpoints(store, "worker_0")]


def test_nothing_is_stored_without_one() -> None:
    store = MemoryStore()
    file = file_in(store)
    assert not file.flush_if_due()
    file.close()
    assert not list(store.list(""))


def test_one_written_again_is_the_newest_and_one_that_is_gone_is_left_out(tmp_path: Path) -> None:
    store = MemoryStore()
    file = file_in(store)
    first, last = written(tmp_path, "9.pt"), written(tmp_path, "last.pt")
    for step, path in ((9, first), (9, last), (19, written(tmp_path, "19.pt")), (19, last)):
        file.add(Checkpoint(step, path))
    assert file.flush_if_due()
    assert stored(store) == [(9, "9.pt"), (19, "19.pt"), (19, "last.pt")]
    Path(first).unlink()
    file.add(Checkpoint(29, last))
    file.add(Checkpoint(29, "s3://bucket/29.pt"))
    file.close()
    assert stored(store) == [(19, "19.pt"), (29, "last.pt"), (29, "29.pt")]


def test_a_process_that_goes_on_adds_to_the_list(tmp_path: Path) -> None:
    store = MemoryStore()
    for start, name in ((0, "a.pt"), (50, "b.pt")):
        file = file_in(store, start=start)
        file.add(Checkpoint(9, written(tmp_path, name)))
        file.close()
    assert stored(store) == [(9, "a.pt"), (59, "b.pt")]


def test_a_damaged_list_is_begun_anew(tmp_path: Path) -> None:
    store = MemoryStore()
    store.put(checkpoints_key("worker_0"), b"{")
    file = file_in(store)
    file.add(Checkpoint(9, written(tmp_path, "a.pt")))
    file.flush()
    assert stored(store) == [(9, "a.pt")]


def test_an_outage_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock = MemoryStore(), Clock()
    file = file_in(store, clock=clock)
    file.add(Checkpoint(9, written(tmp_path, "a.pt")))

    def refuse(*_: object) -> None:
        raise StorageUnavailableError("not today")

    with monkeypatch.context() as patched:
        patched.setattr(store, "put", refuse)
        with pytest.raises(StorageUnavailableError):
            file.flush_if_due()
    assert not file.flush_if_due()  # not at once again
    assert 0 < file.due_in_seconds <= 5
    clock.seconds += 6
    assert file.flush_if_due()
    assert stored(store) == [(9, "a.pt")]
