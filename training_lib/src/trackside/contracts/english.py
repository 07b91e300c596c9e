"""Numbers in English words and forms."""

from __future__ import annotations

_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}
_TEENS = range(11, 14)


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `4th`, `11th`, `22nd`.

    Args:
        number: A whole number from 0 on.
    """
    suffix = "th" if number % 100 in _TEENS else _SUFFIXES.get(number % 10, "th")
    return f"{number:,}{suffix}"


def every(number: int) -> str:
    """Return `every` for 1, `every 8th` for 8.

    Args:
        number: An interval, from 1 on.
    """
    return "every" if number == 1 else f"every {ordinal(number)}"
