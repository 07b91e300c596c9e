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


def counted(number: int, word: str) -> str:
    """Return `1 rule`, `1,840 steps`.

    Args:
        number: A whole number.
        word: What is counted, in the singular; its plural ends in s.
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def size_of(size_bytes: int) -> str:
    """Return a number of bytes for people: `300 bytes`, `1.5 MiB`.

    Args:
        size_bytes: A whole number.
    """
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def every(number: int) -> str:
    """Return `every` for 1, `every 8th` for 8.

    Args:
        number: An interval, from 1 on.
    """
    return "every" if number == 1 else f"every {ordinal(number)}"
