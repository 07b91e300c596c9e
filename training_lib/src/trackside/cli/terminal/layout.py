"""Wrapped text and labelled text, without the trailing blanks that a log file would keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

NARROW_COLUMNS = 50  # below, a label stands on a line of its own
_FEWEST_COLUMNS = 10


def beside(console: Console, label: Text, body: Text, *, indent: int, width: int) -> Iterator[Text]:
    """The lines of `label` followed by `body`, whose lines all begin in column `indent`."""
    if width < NARROW_COLUMNS and label.cell_len > 4:
        yield from wrapped(console, label, width)
        label, indent = Text(), 2
    for number, line in enumerate(wrapped(console, body, max(_FEWEST_COLUMNS, width - indent))):
        lead = label if number == 0 else Text()
        yield Text() + lead + Text(" " * (indent - lead.cell_len)) + line  # or the label's style held for all of it


def columns(console: Console, rows: Sequence[Sequence[Text]], *, header: Sequence[str] = ()) -> Iterator[Text]:
    """Rows whose last cell wraps within its column, while the others keep their width."""
    table = [[Text(title, style="bold") for title in header], *rows] if header else list(rows)
    widths = [max(cell.cell_len for cell in column) + 2 for column in zip(*(row[:-1] for row in table), strict=True)]
    for row in table:
        label = Text()
        for cell, width in zip(row, widths, strict=False):
            label += cell + Text(" " * (width - cell.cell_len))
        yield from beside(console, label, row[-1], indent=sum(widths), width=console.width)


def wrapped(console: Console, text: Text, width: int) -> Iterator[Text]:
    """The lines of `text`, each at most `width` columns."""
    for line in text.wrap(console, width, overflow="fold"):
        line.rstrip()
        yield line
