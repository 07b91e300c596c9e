"""The right to do something, which one thread has at a time: none waits for itself, as in a signal's handler."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class OneAtATime:
    """The right to do something, which one thread has at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread = 0

    @contextmanager
    def taken(self, wait_seconds: float) -> Iterator[bool]:
        """Yield True if this thread has it until then. It waits so long for another, and never for itself.

        Args:
            wait_seconds: Seconds.
        """
        this_thread = threading.get_ident()
        is_ours = self._thread != this_thread and self._lock.acquire(timeout=wait_seconds)
        if is_ours:
            self._thread = this_thread
        try:
            yield is_ours
        finally:
            if is_ours:
                self._thread = 0
                self._lock.release()
