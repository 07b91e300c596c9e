"""Locks in the folder of a run: each worker holds one while it writes, so that a second process can see it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from trackside.contracts.errors import Problem, RunTakenError
from trackside.contracts.run_layout import worker_lock_key
from trackside.storage.local import LocalStore
from trackside.storage.store import Store

try:
    import fcntl
except ImportError:  # no Unix: nothing is locked, no process is refused
    fcntl = None  # type: ignore[assignment] # a module, or none

_IS_HELD = {errno.EACCES, errno.EAGAIN}


class WorkerLock:
    """The lock of one worker in the folder of a run. S3, and folders without file locks, have none.

    It belongs to the process, not to its children, and ends with the process in every case. Its file holds the
    process's number, and is removed when the lock is released.
    """

    def __init__(self, store: Store, worker: str) -> None:
        self._uri, self._worker = store.uri, worker
        is_local = fcntl is not None and isinstance(store, LocalStore)
        self._path = Path(store.uri, worker_lock_key(worker)) if is_local else None
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock. Errors: `RunTakenError` if another living process is this worker of the run."""
        if self._path is None or self._descriptor is not None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._locked(self._path)
        except OSError as error:
            if error.errno in _IS_HELD:
                raise self._refusal(self._path) from error
            # else the file system cannot lock, or not be written to, which the first step finds out

    def removed_at(self) -> float | None:
        """Return the time at which others removed its file, in seconds since the epoch; None while it exists."""
        if self._descriptor is None:
            return None
        status = os.fstat(self._descriptor)
        return None if status.st_nlink else status.st_ctime

    def release(self) -> None:
        """Release the lock, so that another process can be this worker."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None or self._path is None:
            return
        try:
            self._path.unlink(missing_ok=True)  # while it is held: a process that opened it before sees that it is gone
        except OSError:
            pass  # it has no information about the run
        finally:
            os.close(descriptor)

    def is_held(self) -> bool | None:
        """Return True if a living process holds it, False if its holder has died, None if that is unknown."""
        if self._path is None:
            return None
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return True if error.errno in _IS_HELD else None
        finally:
            os.close(descriptor)
        return False

    def _locked(self, path: Path) -> int:
        while True:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_nlink:
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, str(os.getpid()).encode("ascii"))
                    return descriptor
            except OSError:
                os.close(descriptor)
                raise
            os.close(descriptor)  # it was removed in between

    def _refusal(self, path: Path) -> RunTakenError:
        try:
            number = path.read_bytes()[:20].decode("ascii", "replace").strip() or "?"
        except OSError:
            number = "?"
        message = f"is being written as {self._worker} by another process ({number}), so this training is not recorded."
        fix = "Trainings at the same time need a run each: start each with its own `trackside run`, or TRACKSIDE_RUN."
        return RunTakenError([Problem(self._uri, message, fix)], subject="The run", process=number)
