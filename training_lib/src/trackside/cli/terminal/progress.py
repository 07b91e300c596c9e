"""A progress bar for work that takes longer than a second, on a terminal only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

T = TypeVar("T")

QUIET_SECONDS = 1.0


def tracked(
    items: Sequence[T], *, label: str, console: Console, clock: Callable[[], float] = time.monotonic
) -> Iterator[T]:
    """Yield the items. A bar appears on `console` after a second, and disappears after the last item."""
    if not console.is_terminal:
        yield from items
        return
    began, bar = clock(), None
    try:
        for number, item in enumerate(items):
            if bar is None and clock() - began >= QUIET_SECONDS:
                bar = _bar(console)
                task = bar.add_task(label, total=len(items))
                bar.start()
            if bar is not None:
                bar.update(task, completed=number)
            yield item
    finally:
        if bar is not None:
            bar.stop()


@contextmanager
def waiting(label: str, *, console: Console, quiet_seconds: float = QUIET_SECONDS) -> Iterator[None]:
    """Show a bar with the elapsed time, for work of unknown length, once it has taken a second."""
    if not console.is_terminal:
        yield
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    bar = _bar(console, TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar.add_task(label, total=None)
    timer = threading.Timer(quiet_seconds, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()


def shown(items: Sequence[T], label: str) -> Iterable[T]:
    """Return `tracked` items on stderr, in the colours of the current command."""
    from trackside.cli.terminal.console import progress_console
    from trackside.cli.terminal.options import is_quiet, wants_color

    if is_quiet():
        return items
    return tracked(items, label=label, console=progress_console(color=wants_color()))


@contextmanager
def shown_waiting(label: str) -> Iterator[None]:
    """Show `waiting` on stderr, in the colours of the current command."""
    from trackside.cli.terminal.console import progress_console
    from trackside.cli.terminal.options import is_quiet, wants_color

    if is_quiet():
        yield
        return
    with waiting(label, console=progress_console(color=wants_color())):
        yield


def _bar(console: Console, *columns: TextColumn | BarColumn | TimeElapsedColumn) -> Progress:
    from rich.progress import Progress

    # Rich would send what is printed meanwhile to the bar's stream: data belongs on stdout.
    return Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
