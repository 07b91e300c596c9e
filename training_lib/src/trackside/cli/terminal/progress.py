"""A progress bar for what takes longer than a second, on a terminal only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

QUIET_SECONDS = 1.0


def tracked(
    items: Sequence[T], *, label: str, console: Console, clock: Callable[[], float] = time.monotonic
) -> Iterator[T]:
    """The items; a bar appears on `console` once they have taken a second, and is gone when they are through."""
    from rich.progress import Progress

    if not console.is_terminal:
        yield from items
        return
    began, bar = clock(), None
    try:
        for number, item in enumerate(items):
            if bar is None and clock() - began >= QUIET_SECONDS:
                bar = Progress(console=console, transient=True)
                task = bar.add_task(label, total=len(items))
                bar.start()
            if bar is not None:
                bar.update(task, completed=number)
            yield item
    finally:
        if bar is not None:
            bar.stop()
