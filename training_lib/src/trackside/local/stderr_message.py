"""Messages of a training's own process on stderr, between the redraws of its progress bars."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

EMPTY_LINE = "\r\x1b[K"  # the line that a progress bar may have begun


def write_message(text: str) -> None:
    """Write lines to stderr in one write, above the progress bars of tqdm, else over the line of another bar.

    Bars of rich need no help: they show what is written to `sys.stderr` above themselves.
    """
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError), _without_bars():  # the stream may be closed at the exit
        over = EMPTY_LINE if sys.stderr.isatty() else ""
        sys.stderr.write(f"{over}{text}\n")
        sys.stderr.flush()


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """Remove the bars of tqdm for the time of the block, and draw them again."""
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if tqdm is None or not sys.stderr.isatty():
        yield
        return
    with tqdm.external_write_mode(file=sys.stderr, nolock=False):
        yield
