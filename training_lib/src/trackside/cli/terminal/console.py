"""The two streams of every command: data on stdout, what happens on stderr."""

from __future__ import annotations

import io
import os
import sys
from typing import IO

from rich.console import Console

from trackside.cli.terminal.text import printable

MOST_COLUMNS = 100  # lines of prose any longer are hard to read, however wide the terminal


class _Console(Console):
    """Rich ends the process when a reader goes away; whoever prints decides here, for a training may be running."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def data_console(*, color: bool) -> Console:
    """For what the user asked to see."""
    return _console(sys.stdout, color=color)


def progress_console(*, color: bool) -> Console:
    """For what happens meanwhile, and for errors."""
    return _console(sys.stderr, color=color)


def safe(console: Console, text: str) -> str:
    """`text` as this console can print it, with nothing in it that a terminal would obey."""
    return printable(text, encoding=console.encoding)


def keeps_up(console: Console) -> bool:
    """Flushes; False once the reader of the stream has gone away, whereafter writing to it is harmless."""
    try:
        console.file.flush()
    except BrokenPipeError:
        detach(console.file)
        return False
    return True


def detach(stream: IO[str]) -> None:
    """Points a stream whose reader is gone to nowhere, so that the flush at exit does not fail either."""
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
