"""The part of a page that a command writes: what stands between two marks, or below one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.engine.documents import write_text


def follows(module: str) -> str:
    """Return the mark above all that a command writes."""
    return f"<!-- What follows is written by `python -m {module}`. -->"


def table(heads: str, rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Yield a table, line by line.

    Args:
        heads: Heads of the columns, with ` | ` between them.
        rows: Cells of each row.
    """
    yield f"| {heads} |"
    yield "|---" * (heads.count(" | ") + 1) + "|"
    yield from (f"| {' | '.join(map(str, cells))} |" for cells in rows)


def replaced(page: str, text: str, *, begin: str, end: str = "") -> str:
    """Return the page with `text` between its marks, or below the first if there is no second.

    Raises:
        ValueError: The page lacks one of them.
    """
    before, found, rest = page.partition(begin)
    _, last, after = rest.partition(end) if end else ("", begin, "")
    if not found or not last:
        raise ValueError(f"The page has no {begin}" + (f" and {end}." if end else "."))
    return f"{before}{begin}\n\n{text}\n\n{end}{after}" if end else f"{before}{begin}\n\n{text}\n"


def put(lines: Sequence[str] | str, page: Path | None, *, begin: str, end: str = "") -> None:
    """Print lines, and write them between the marks of a page if there is one.

    Raises:
        ValueError: The page lacks a mark.
    """
    text = lines if isinstance(lines, str) else "\n".join(lines)
    print(text)
    if page is not None:
        write_text(page, replaced(page.read_text(encoding="utf-8"), text, begin=begin, end=end))
