"""A terminal that a view has for itself: a screen of its own, keys without Enter, all restored when it leaves."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.text import Text

LEAVE = frozenset({"q", "Q", "\x1b", "\x04"})  # q, Escape, Ctrl-D
_SEQUENCE = re.compile(r"\x1b(\[[0-9;]*[A-Za-z~]|O[A-Z])")  # of an arrow or function key
MOST_KEYS = 64


class LiveScreen:
    """A context with the alternate screen of the terminal. Needs a terminal as stdin and stdout.

    Args:
        console: Writes to the terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._keys = sys.stdin.fileno()
        self._before: list[Any] = []
        self._is_interrupted = False

    def __enter__(self) -> LiveScreen:
        self._before = termios.tcgetattr(self._keys)
        self._on_sigterm = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        self._on_sigint = signal.signal(signal.SIGINT, self._interrupt)
        tty.setcbreak(self._keys)  # Ctrl-C stays a signal
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._console.show_cursor(True)
        self._console.set_alt_screen(False)
        termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)
        signal.signal(signal.SIGINT, self._on_sigint)
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def _interrupt(self, *_: object) -> None:
        """Note the interrupt, for its exception is lost where Python ignores one: in the end of an object."""
        self._is_interrupted = True
        raise KeyboardInterrupt

    def size(self) -> tuple[int, int]:
        """Return columns and rows of the terminal as it is now."""
        size = os.get_terminal_size(sys.stdout.fileno())
        return size.columns, size.lines

    def show(self, lines: Sequence[Text]) -> None:
        """Replace the content of the screen, in one write."""
        width, height = self.size()
        self._console.width = width
        with self._console.capture() as captured:
            for line in lines[:height]:
                self._console.print(line, soft_wrap=True, no_wrap=True, overflow="crop", crop=True)
        rows = captured.get().rstrip("\n").split("\n")
        file = self._console.file
        file.write("\x1b[H" + "".join(f"{row}\x1b[K\r\n" for row in rows[:-1]) + f"{rows[-1]}\x1b[K\x1b[J")
        file.flush()

    def left_within(self, seconds: float) -> bool:
        """Wait for `seconds`. Return True at once if a key leaves the view."""
        until = time.monotonic() + seconds
        while (rest := until - time.monotonic()) > 0:
            if self._is_interrupted:
                raise KeyboardInterrupt
            if select.select([self._keys], [], [], rest)[0]:
                keys = os.read(self._keys, MOST_KEYS).decode("utf-8", "replace")
                if not keys or LEAVE & set(_SEQUENCE.sub("", keys)):  # no key: the terminal is gone
                    return True
        return False
