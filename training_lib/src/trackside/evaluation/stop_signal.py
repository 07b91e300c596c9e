"""SIGTERM and SIGINT as a flag, and a sleep that ends early on a signal or on news."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType

MOST_WAKES = 4096
BOTH = (signal.SIGTERM, signal.SIGINT)
OF_JOBS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def ignore_signals_of_jobs() -> None:
    """Ignore what a scheduler sends to each process of a job: the training decides what it means. Main thread only."""
    for number in OF_JOBS:
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which child processes would inherit


class StopSignal:
    """A context in which the first SIGTERM or SIGINT sets `is_set`; a second one has its usual effect.

    Main thread only.

    Args:
        numbers: The signals that do so.
    """

    def __init__(self, numbers: Sequence[signal.Signals] = BOTH) -> None:
        self._numbers = tuple(numbers)
        self.is_set = False
        self._is_open = False
        self._lock = threading.RLock()  # a signal may come while this thread has it

    def __enter__(self) -> StopSignal:
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        self._is_open = True
        self._before = {number: signal.signal(number, self._request_stop) for number in self._numbers}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        with self._lock:
            self._is_open = False
            os.close(self._read)
            os.close(self._write)

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until a signal or `wake`."""
        if not self.is_set:
            # The pipe keeps a signal that comes between the test of `is_set` and the sleep.
            select.select([self._read], [], [], seconds)
            with contextlib.suppress(BlockingIOError):
                os.read(self._read, MOST_WAKES)  # `is_set` remembers an end; to be woken twice is to be woken

    def wake(self) -> None:
        """End the current sleep, or else the next one. Safe from any thread, and after the context has ended."""
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._is_open:
                os.write(self._write, b"!")

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self.is_set = True
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
        self.wake()
