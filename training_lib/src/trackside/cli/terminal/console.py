"""The two streams of every command: data on stdout, progress and errors on stderr."""

from __future__ import annotations

import io
import os
import sys
from typing import IO

from rich.console import Console

from trackside.cli.terminal.text import printable

MOST_COLUMNS = 100  # lines of prose any longer are hard to read, however wide the terminal


class _Console(Console):
    """A console that raises when its reader is gone. Rich would end the process, but a training may be running."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def data_console(*, color: bool) -> Console:
    """Return the console for data."""
    return _console(sys.stdout, color=color)


def progress_console(*, color: bool) -> Console:
    """Return the console for progress and errors."""
    return _console(sys.stderr, color=color)


def safe(console: Console, text: str) -> str:
    """Return `text` in characters that this console can print and a terminal does not obey."""
    return printable(text, encoding=console.encoding)


def keeps_up(console: Console) -> bool:
    """Flush the stream. Return False once its reader is gone; writing to it is harmless then."""
    try:
        console.file.flush()
    except BrokenPipeError:
        detach(console.file)
        return False
    return True


def detach(stream: IO[str]) -> None:
    """Redirect a stream without a reader to nowhere, so that the flush at exit does not fail either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _console(stream: IO[str] | None, *, color: bool) -> Console:
    console = _Console(
        file=stream or io.StringIO(),  # a program may be started without the stream (2>&-)
        no_color=None if color else True,
        color_system="auto" if color else None,
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.width = min(console.width, MOST_COLUMNS)
    return console
