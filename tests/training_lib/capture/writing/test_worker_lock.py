"""One living process for each worker of a run that lies in a folder; the next one when it is gone, however it went."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS
from trackside.capture.writing.worker_lock import WorkerLock
from trackside.contracts.errors import ConfigurationError
from trackside.environment import inherited
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore

HOLDER = """
import os, sys
from trackside.capture.writing.worker_lock import WorkerLock
from trackside.storage.local import LocalStore

lock = WorkerLock(LocalStore(sys.argv[1]), "worker_0")
lock.take()
print("taken", flush=True)
if len(sys.argv) > 2 and os.fork():  # the parent goes, its child stays
    os._exit(0)
sys.stdin.read()
"""


@contextmanager
def holder(folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder, *more],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "taken\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=HANGS_SECONDS)


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with holder(tmp_path) as process:
        assert WorkerLock(store, "worker_0").is_held() is True
        with pytest.raises(ConfigurationError, match=rf"as worker_0 by another process \({process.pid}\)"):
            WorkerLock(store, "worker_0").take()
        other = WorkerLock(store, "worker_1")
        other.take()  # the ranks of one training share a run
        other.release()
        process.send_signal(signal.SIGKILL)
        process.wait(HANGS_SECONDS)
        assert WorkerLock(store, "worker_0").is_held() is False
        lock = WorkerLock(store, "worker_0")
        lock.take()
        assert (tmp_path / "state" / "worker_0.lock").read_text() == str(os.getpid())
        lock.release()


def test_children_do_not_keep_it(tmp_path: Path) -> None:
    """Workers of a DataLoader outlive a trainer that was killed, for a moment."""
    with holder(tmp_path, "fork") as process:
        process.wait(HANGS_SECONDS)
        lock = WorkerLock(LocalStore(tmp_path), "worker_0")
        lock.take()
        lock.release()


def test_nothing_stays_behind(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    lock = WorkerLock(store, "worker_0")
    assert lock.is_held() is None
    lock.take()
    lock.take()
    lock.release()
    lock.release()
    assert not list(store.list())


def test_a_file_in_the_place_of_the_folder_refuses_nobody(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    lock = WorkerLock(LocalStore(tmp_path), "worker_0")
    lock.take()
    assert lock.is_held() is None
    lock.release()


def test_where_no_file_can_be_locked_nobody_is_refused() -> None:
    lock = WorkerLock(MemoryStore(), "worker_0")
    lock.take()
    assert lock.is_held() is None
    lock.release()
