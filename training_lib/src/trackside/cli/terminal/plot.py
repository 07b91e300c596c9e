"""A curve as lines of characters: braille dots, two by four in each character; without them, stars."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trackside.cli.terminal.sparkline import is_log_scaled

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of a character
LABEL_COLUMNS = 9  # of the numbers to the left


def plot(
    steps: Sequence[int], values: Sequence[float], *, width: int, height: int, ascii_only: bool = False
) -> list[str]:
    """Return `height` lines of at most `width` columns: the curve, with its largest and smallest value to the left.

    Positive values of more than two decades have a log scale. Values that are not finite leave a gap, marked in the top
    line by `x`. Steps ascend.
    """
    columns = width - LABEL_COLUMNS
    across, down = (1, 1) if ascii_only else (2, 4)
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ["no finite value" if values else "no value yet", *[""] * (height - 1)]
    is_log = is_log_scaled(values)
    steps, values = _thinned(steps, values, most=4 * columns * across)
    low, high = min(finite), max(finite)
    grid = [[False] * (columns * across) for _ in range(height * down)]
    broken: set[int] = set()
    before: tuple[int, int] | None = None
    for step, value in zip(steps, values, strict=True):
        x = _place(step, steps[0], steps[-1], columns * across)
        if not math.isfinite(value):
            broken.add(x // across)
            before = None
            continue
        y = len(grid) - 1 - _level(value, low, high, len(grid), is_log=is_log)
        for at_x, at_y in _line(before or (x, y), (x, y)):
            grid[at_y][at_x] = True
        before = (x, y)
    draw = _stars if ascii_only else _braille
    lines = [draw(grid[row * down : (row + 1) * down]) for row in range(height)]
    if broken:
        first = lines[0]
        lines[0] = "".join("x" if place in broken else character for place, character in enumerate(first))
    axis = "|" if ascii_only else "│"
    labels = {0: f"{high:.3g}", height - 1: f"{low:.3g}"}
    if high == low:
        labels = {(len(grid) // 2) // down: f"{high:.3g}"}
    return [
        f"{labels.get(row, ''):>{LABEL_COLUMNS - 2}} {axis}{line}".rstrip(" \u2800") for row, line in enumerate(lines)
    ]


def _thinned(steps: Sequence[int], values: Sequence[float], *, most: int) -> tuple[list[int], list[float]]:
    """Return at most about `most` points: of each stretch the lowest and the highest, and one that is not finite."""
    size = -(-2 * len(values) // most)
    if size < 3:
        return list(steps), list(values)
    kept: list[int] = []
    for first in range(0, len(values), size):
        stretch = range(first, min(first + size, len(values)))
        finite = [place for place in stretch if math.isfinite(values[place])]
        ends = {min(finite, key=values.__getitem__), max(finite, key=values.__getitem__)} if finite else set()
        gap = next((place for place in stretch if not math.isfinite(values[place])), None)
        kept += sorted(ends if gap is None else {*ends, gap})
    return [steps[place] for place in kept], [values[place] for place in kept]


def _place(step: int, first: int, last: int, count: int) -> int:
    return 0 if last == first else round((step - first) / (last - first) * (count - 1))


def _level(value: float, low: float, high: float, levels: int, *, is_log: bool) -> int:
    if is_log:
        value, low, high = math.log10(value), math.log10(low), math.log10(high)
    largest = max(abs(low), abs(high)) or 1.0  # so that no difference can overflow
    value, low, high = value / largest, low / largest, high / largest
    if high == low:
        return (levels - 1) // 2
    return min(levels - 1, max(0, round((value - low) / (high - low) * (levels - 1))))


def _line(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the dots from one point to another."""
    count = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (round(start[0] + (end[0] - start[0]) * k / count), round(start[1] + (end[1] - start[1]) * k / count))
        for k in range(count + 1)
    ]


def _braille(rows: Sequence[Sequence[bool]]) -> str:
    characters = []
    for first in range(0, len(rows[0]), 2):
        dots = sum(_DOTS[row][column] for row in range(4) for column in range(2) if rows[row][first + column])
        characters.append(chr(_BRAILLE + dots))
    return "".join(characters)


def _stars(rows: Sequence[Sequence[bool]]) -> str:
    return "".join("*" if dot else " " for dot in rows[0])
