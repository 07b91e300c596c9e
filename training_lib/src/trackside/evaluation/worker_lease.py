"""The link between a worker and its judging process: the process ends with the worker, or with its lease.

The worker writes lines to the process's standard input:

    until 1763700000.5    the lease holds until then (seconds since the epoch)
    news                  the run was written to: look now

The process changes the time of a file (`ProgressSign`) as long as it gets on: the worker ends one that hangs.

The end of the input means that the worker is dead. Then, or once the lease is over, the process ends at once, wherever
it is: another worker may already judge the same run. Verdicts sent before are stored, as after any kill.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from trackside.evaluation import exit_codes
from trackside.storage.store import Store

UNTIL, NEWS = "until", "news"
PROGRESS_FILE = "progress"  # in the folder of the process: its time is that of the last progress
PROGRESS_SECONDS = 1.0  # between two changes of that file
LONGEST_WAIT_SECONDS = 3600.0  # select refuses much longer times


def until_line(moment: float) -> bytes:
    """Return the line that extends the lease until `moment` (seconds since the epoch)."""
    return f"{UNTIL} {moment!r}\n".encode()


def news_line() -> bytes:
    """Return the line that reports new data in the run."""
    return f"{NEWS}\n".encode()


class WorkerLease:
    """The worker's lease as its judging process reads it, in a thread of its own.

    descriptor  the file that the worker writes to
    wake        called when the run has new data
    clock       returns seconds since the epoch
    end         ends the process with an exit code
    """

    def __init__(
        self,
        descriptor: int,
        *,
        wake: Callable[[], object],
        clock: Callable[[], float] = time.time,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._descriptor, self._wake, self._clock, self._end = descriptor, wake, clock, end
        self._until = float("inf")  # until the worker's first line

    def start(self) -> None:
        """Start the thread that watches."""
        threading.Thread(target=self.watch, name="worker lease", daemon=True).start()

    def watch(self) -> None:
        """Read lines until the worker or the lease ends, then end the process."""
        buffered = b""
        while True:
            left = self._until - self._clock()
            if left <= 0:
                break
            readable, _, _ = select.select([self._descriptor], [], [], min(left, LONGEST_WAIT_SECONDS))
            if not readable:
                continue
            piece = os.read(self._descriptor, 4096)
            if not piece:
                break
            *lines, buffered = (buffered + piece).split(b"\n")
            for line in lines:
                self._follow(line.decode("ascii", errors="replace"))
        self._end(exit_codes.LEASE_LOST)

    def check(self) -> None:
        """End the process if the lease is over: the process may have been frozen until now."""
        if self._clock() >= self._until:
            self._end(exit_codes.LEASE_LOST)

    def _follow(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == UNTIL:
            self._until = float(rest)
        elif word == NEWS:
            self._wake()


class ProgressSign:
    """A sign of progress for the worker, which ends a process without one.

    folder  the folder that worker and process share
    clock   returns seconds
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._clock = folder / PROGRESS_FILE, clock
        self._next_at = 0.0

    def note(self) -> None:
        """Note progress. Called often, it does so once in `PROGRESS_SECONDS`."""
        now = self._clock()
        if now >= self._next_at:
            self._next_at = now + PROGRESS_SECONDS
            with contextlib.suppress(OSError):
                self._file.touch()


class LeasedStore:
    """A store that is written to only while the lease holds."""

    def __init__(self, store: Store, lease: WorkerLease) -> None:
        self._store, self._lease = store, lease

    @property
    def uri(self) -> str:
        """The location of the wrapped store."""
        return self._store.uri

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        """Implement `Store.put`. End the process instead if the lease is over."""
        self._lease.check()
        self._store.put(key, data)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Implement `Store.get`."""
        return self._store.get(key, start=start, length=length)

    def exists(self, key: str) -> bool:
        """Implement `Store.exists`."""
        return self._store.exists(key)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        """Implement `Store.list`."""
        return self._store.list(prefix, start_after=start_after)

    def delete(self, key: str) -> None:
        """Implement `Store.delete`. End the process instead if the lease is over."""
        self._lease.check()
        self._store.delete(key)
