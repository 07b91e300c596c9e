"""The part of a page that a benchmark writes: what stands between two marks."""

from __future__ import annotations


def replaced(page: str, text: str, *, begin: str, end: str) -> str:
    """Return the page with `text` between its marks.

    Raises:
        ValueError: The page lacks one of them.
    """
    before, found, rest = page.partition(begin)
    _, last, after = rest.partition(end)
    if not found or not last:
        raise ValueError(f"The page has no {begin} and {end}.")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
