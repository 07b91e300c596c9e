"""Wrapped and labelled text, without the trailing blanks that a log file would keep."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

NARROW_COLUMNS = 50  # below, a label stands on a line of its own
LAST_COLUMNS = 16  # fewer would make a column of syllables
_FEWEST_COLUMNS = 10
_LIST_ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def beside(console: Console, label: Text, body: Text, *, indent: int, width: int) -> Iterator[Text]:
    """Yield `label`, then the lines of `body`, each at column `indent`."""
    if width < NARROW_COLUMNS and label.cell_len > 4:
        yield from wrapped(console, label, width)
        label, indent = Text(), 2
    for number, line in enumerate(wrapped(console, body, max(_FEWEST_COLUMNS, width - indent))):
        lead = label if number == 0 else Text()
        yield Text() + lead + Text(" " * (indent - lead.cell_len)) + line  # or the label's style held for all of it


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs and list items of Markdown, each as one line. Code, tables and blank lines stay as they are.

    Args:
        text: The text, wrapped or not.
    """
    held, is_code = "", False
    for line in text.splitlines():
        bare = line.strip()
        is_fence = bare.startswith("```")
        if is_code or is_fence or not bare or bare.startswith("|"):
            yield from [held] if held else []
            yield line
            held, is_code = "", is_code is not is_fence
        elif _LIST_ITEM.match(bare) or not held:
            yield from [held] if held else []
            held = bare
        else:
            held = f"{held} {bare}"
    if held:
        yield held


def columns(
    console: Console, rows: Sequence[Sequence[Text]], *, header: Sequence[str] = (), whole: int | None = None
) -> Iterator[Text]:
    """Yield rows as columns. The last cell wraps within its column, and the others keep their width.

    The widest other column wraps too if the last one would have no room.

    Args:
        console: The console.
        rows: Cells of each row.
        header: Titles of the columns.
        whole: Number of a column with names that users copy: it never wraps, however narrow the console.
    """
    table = [[Text(title, style="bold") for title in header], *rows] if header else list(rows)
    widths = [max(cell.cell_len for cell in column) + 2 for column in zip(*(row[:-1] for row in table), strict=True)]
    last = max((row[-1].cell_len for row in table), default=0)
    if whole is not None:
        yield from _with_whole(console, table, [*widths, last], whole)
        return
    too_much = sum(widths) + min(last, LAST_COLUMNS) - console.width
    if console.width >= NARROW_COLUMNS and widths and 0 < too_much <= max(widths) - LAST_COLUMNS:
        widths[widths.index(max(widths))] -= too_much
        yield from _folded(console, table, widths)
        return
    for row in table:
        label = Text()
        for cell, width in zip(row, widths, strict=False):
            label += cell + Text(" " * (width - cell.cell_len))
        yield from beside(console, label, row[-1], indent=sum(widths), width=console.width)


def _with_whole(console: Console, table: Sequence[Sequence[Text]], widths: Sequence[int], whole: int) -> Iterator[Text]:
    """Yield the rows on one line each if all fit, else the whole cell on a line of its own, and the others below it."""
    if sum(widths) <= console.width:
        for row in table:
            line = Text()
            for cell, width in zip(row, widths, strict=True):
                line += cell + Text(" " * (width - cell.cell_len))
            line.rstrip()
            yield line
        return
    for row in table:
        yield row[whole]
        rest = [cell for place, cell in enumerate(row) if place != whole]
        room = [width for place, width in enumerate(widths) if place != whole]
        line = Text("  ")
        for cell, width in zip(rest, room, strict=True):
            line += cell + Text(" " * (width - cell.cell_len))
        line.rstrip()
        yield from wrapped(console, line, console.width)


def _folded(console: Console, table: Sequence[Sequence[Text]], widths: Sequence[int]) -> Iterator[Text]:
    room = [*(width - 2 for width in widths), console.width - sum(widths)]
    for row in table:
        cells = [list(wrapped(console, cell, most)) for cell, most in zip(row, room, strict=True)]
        for parts in zip_longest(*cells, fillvalue=Text()):
            line = Text()
            for part, width in zip(parts, widths, strict=False):
                line += part + Text(" " * (width - part.cell_len))
            line += parts[-1]
            line.rstrip()
            yield line


def wrapped(console: Console, text: Text, width: int) -> Iterator[Text]:
    """Yield the lines of `text`, each at most `width` columns."""
    for line in text.wrap(console, width, overflow="fold"):
        line.rstrip()
        yield line
