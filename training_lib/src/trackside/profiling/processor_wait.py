"""The time in which a thread was ready to run and had no processor: other work on the machine had it. Linux only."""

from __future__ import annotations

import os
from contextlib import suppress
from threading import get_native_id

PATH = "/proc/thread-self/schedstat"  # nanoseconds on a processor, nanoseconds ready without one, turns
_MOST_BYTES = 96
_NANOSECONDS = 1e-9


class ProcessorWait:
    """The waits of the calling thread for a processor.

    The kernel's file stays open, for reading one costs less than opening it. It belongs to one thread, and is opened
    anew for another one, or after a fork.

    Args:
        path: The kernel's file about the calling thread.
    """

    def __init__(self, path: str = PATH) -> None:
        self._path = path
        self._descriptor = -1
        self._thread = 0
        self._nanoseconds = 0

    def take(self) -> float | None:
        """Return the seconds since the last call; None at the first call of a thread, or where they are unknown."""
        thread = get_native_id()
        if thread != self._thread:
            self.close()
            self._thread = thread
            self._descriptor = _opened(self._path)
            self._nanoseconds = self._read()
            return None
        if self._descriptor < 0:
            return None
        before, self._nanoseconds = self._nanoseconds, self._read()
        if self._descriptor < 0:
            return None
        return max(0, self._nanoseconds - before) * _NANOSECONDS

    def so_far(self) -> float | None:
        """Return the seconds since the last `take`, which go on to count; None in another thread, or if unknown."""
        if self._descriptor < 0 or get_native_id() != self._thread:
            return None
        now = self._read()
        return None if self._descriptor < 0 else max(0, now - self._nanoseconds) * _NANOSECONDS

    def close(self) -> None:
        """Close the file, which the next call opens again."""
        self._thread = 0
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):  # a script may close what it has not opened
                os.close(descriptor)

    def _read(self) -> int:
        """Return the nanoseconds so far. Close the file for good if it has no such number."""
        if self._descriptor < 0:
            return 0
        try:
            return int(os.pread(self._descriptor, _MOST_BYTES, 0).split(None, 2)[1])
        except (OSError, ValueError, IndexError):
            self._close()
            return 0


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # another system, or a kernel without the counter
        return -1
