"""The end of capture with its process: at exit, at SIGTERM, and never in a forked child."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

_NO_PROCESS = -1


class ProcessEnd:
    """The end of this process, at which `close` is called.

    - Normal end, `SystemExit`, uncaught exception, Ctrl-C: at exit, after the user's own code has ended.
    - SIGTERM without a handler: `close_on_sigterm`, then the signal takes its course, so the exit status stays 143.
    - SIGTERM that the user's program handles: `flush`, then the user's handler, which may go on training.
    - A forked child inherits all of this and does none of it. It gets the handler from before: SIGTERM ends one that
      waits within C, as the worker of a loader may, only without a handler of Python's.
    - SIGKILL and `os._exit`: nothing can be done; everything stored is whole.

    The handler is set in the main thread only (Python allows no other), and not where SIGTERM is ignored.
    """

    def __init__(
        self, *, close: Callable[[], object], close_on_sigterm: Callable[[], object], flush: Callable[[], object]
    ) -> None:
        self._close = close
        self._close_on_sigterm = close_on_sigterm
        self._flush = flush
        self._pid = os.getpid()
        self._previous: Any = None

    def install(self) -> None:
        """Register with exit and SIGTERM. Call it once."""
        atexit.register(self._at_exit)
        if threading.current_thread() is not threading.main_thread():
            return
        previous = signal.getsignal(signal.SIGTERM)
        if previous == signal.SIG_DFL or callable(previous):
            self._previous = previous
            signal.signal(signal.SIGTERM, self._on_sigterm)
            call_in_children(weakref.WeakMethod(self.remove))

    def remove(self) -> None:
        """Undo `install`, unless other code has set another handler since.

        In another thread than the main one the handler stays, and does only what the one before it does.
        """
        atexit.unregister(self._at_exit)
        self._pid = _NO_PROCESS
        if threading.current_thread() is not threading.main_thread():
            return
        if self._previous is not None and signal.getsignal(signal.SIGTERM) == self._on_sigterm:
            signal.signal(signal.SIGTERM, _without_removed(self._previous))

    def _at_exit(self) -> None:
        if os.getpid() == self._pid:
            self._close()

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        is_ours = os.getpid() == self._pid
        if callable(self._previous):
            if is_ours:
                self._flush()
            self._previous(number, frame)
            return
        if is_ours:
            self._close_on_sigterm()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _without_removed(handler: Any) -> Any:
    """Return the handler that stood before those of removed ends."""
    while isinstance(end := getattr(handler, "__self__", None), ProcessEnd) and end._pid == _NO_PROCESS:
        handler = end._previous
    return handler


def call_in_children(method: weakref.WeakMethod[Callable[[], Any]]) -> None:
    """Call the method in forked children while its object exists.

    A hook of `os.register_at_fork` cannot be removed, so it must not keep an ended session alive.
    """

    def call() -> None:
        alive = method()
        if alive is not None:
            alive()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)
