"""Columns of numbers for tables of cases: `{step: value}`."""

from __future__ import annotations

from collections.abc import Iterable


def steady(value: float, count: int = 60, *, every: int = 1, start: int = 0) -> dict[int, float]:
    """The same at `count` steps."""
    return along([value] * count, every=every, start=start)


def along(values: Iterable[float], *, every: int = 1, start: int = 0) -> dict[int, float]:
    """These, one each `every` steps."""
    return {start + every * place: float(value) for place, value in enumerate(values)}


def falling(first: float, last: float, count: int = 60, *, every: int = 1, start: int = 0) -> dict[int, float]:
    """From the first to the last by the same factor each time."""
    factor = (last / first) ** (1 / (count - 1))
    return along([first * factor**place for place in range(count)], every=every, start=start)
