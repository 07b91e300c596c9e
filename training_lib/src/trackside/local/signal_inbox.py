"""Signals as data: collected while the main loop sleeps, and returned when it asks."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any

# What a scheduler, a shell or a user sends to a training; all of it belongs to the training, not to us.
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class SignalInbox:
    """A context in which the signals of `PASSED_ON` no longer act on this process; `wait` returns them.

    A signal that was ignored before (nohup) stays ignored, here and in child processes. Main thread only.
    """

    def __enter__(self) -> SignalInbox:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._handlers: dict[signal.Signals, Any] = {}
        for number in (*PASSED_ON, signal.SIGCHLD):
            if number is signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, _leave_it_in_the_inbox)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def wait(self, seconds: float) -> tuple[signal.Signals, ...]:
        """Wait for a signal or the end of a child process, at most `seconds`. Return the signals, oldest first."""
        if not select.select([self._read], [], [], seconds)[0]:
            return ()
        numbers = os.read(self._read, 4096)
        return tuple(signal.Signals(number) for number in numbers if number in PASSED_ON)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)


def _leave_it_in_the_inbox(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python has already written the number to the wake-up pipe."""
