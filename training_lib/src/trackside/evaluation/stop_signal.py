"""SIGTERM and SIGINT as a question the evaluator can ask, and a sleep that ends when they come."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType, TracebackType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """While entered, the first SIGTERM or SIGINT asks for an end; a second one has its usual effect. Main thread."""

    def __init__(self) -> None:
        self.is_set = False

    def __enter__(self) -> StopSignal:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before = {number: signal.signal(number, self._ask) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def sleep(self, seconds: float) -> None:
        """Returns after that time, or as soon as an end is asked for."""
        if not self.is_set:
            # The pipe keeps a signal that comes between the question and the sleep.
            select.select([self._read], [], [], seconds)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.is_set = True
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"!")
