"""Steps at irregular places: one of each so many in a row, which no habit of a program can hide from.

A program that does something at every second, fourth or tenth step has as many kinds of steps. A constant stride would
meet one kind, over and over. The places follow from the step's number alone, so that all ranks choose the same.
"""

from __future__ import annotations

_GOLDEN = (5**0.5 - 1) / 2  # its multiples lie more evenly within 0 and 1 than those of any other number


def fraction(turn: int) -> float:
    """Return a number from 0 to below 1: those of several turns in a row lie evenly, and in no order."""
    return turn * _GOLDEN % 1.0


def is_place(step: int, interval: int) -> bool:
    """Return True for one step of each `interval` steps in a row.

    Args:
        step: Number of the step.
        interval: Steps, at least 1.
    """
    return interval == 1 or step == _place(step // interval, interval)


def next_place(step: int, interval: int) -> int:
    """Return the first such step after `step`."""
    turn = step // interval
    here = _place(turn, interval)
    return here if here > step else _place(turn + 1, interval)


def _place(turn: int, interval: int) -> int:
    return turn * interval + int(interval * fraction(turn))
