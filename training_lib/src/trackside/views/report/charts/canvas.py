"""A canvas of pixels with smooth lines and a few words, for pictures that are shown where no SVG is: in messages."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.views.report.charts.png import true_color_png

Color = tuple[int, int, int]
Point = tuple[float, float]

# Strokes of the characters that axes need, each point as "xy" on a grid 4 wide; 2 is the line on which letters stand.
_STROKES = {
    "0": "12 03 07 18 38 47 43 32 12",
    "1": "07 28 22|02 42",
    "2": "07 18 38 47 46 02 42",
    "3": "07 18 38 47 46 35 15|35 44 43 32 12 03",
    "4": "32 38 04 44",
    "5": "48 08 05 35 44 43 32 12 03",
    "6": "47 38 18 07 03 12 32 43 44 35 15 04",
    "7": "08 48 12",
    "8": "15 06 07 18 38 47 46 35 15 04 03 12 32 43 44 35",
    "9": "03 12 32 43 47 38 18 07 06 15 35 46",
    ".": "22 22",
    ",": "23 11",
    "-": "05 45",
    "+": "05 45|23 27",
    "c": "45 36 16 05 03 12 32 43",
    "e": "04 44 45 36 16 05 03 12 32 43",
    "i": "26 22|28 28",
    "l": "28 22",
    "n": "06 02|04 16 36 45 42",
    "o": "12 03 05 16 36 45 43 32 12",
    "p": "06 00|05 16 36 45 43 32 12 03",
    "s": "45 36 16 05 14 34 43 32 12 03",
    "t": "18 13 22 32|06 36",
}
_ADVANCE, _BASELINE, _CAPITAL = 6.0, 2, 6.0  # of a character, in units of the grid


class Canvas:
    """Pixels to draw on. Places are (x, y) from the upper left corner.

    Args:
        width: In pixels.
        height: In pixels.
        color: Of the ground.
    """

    def __init__(self, width: int, height: int, color: Color) -> None:
        self._pixels = np.empty((height, width, 3))
        self._pixels[:] = color

    def box(self, left: float, top: float, right: float, bottom: float, color: Color, *, opacity: float = 1.0) -> None:
        """Fill a box, at least a pixel in size."""
        height, width, _ = self._pixels.shape
        x0, x1 = _pixels_of(left, right, width)
        y0, y1 = _pixels_of(top, bottom, height)
        part = self._pixels[y0:y1, x0:x1]
        part += opacity * (np.array(color) - part)

    def line(self, points: Sequence[Point], color: Color, *, width: float) -> None:
        """Draw a line with round corners and ends; one point is a dot."""
        reach = width / 2 + 1
        xs, ys = zip(*points, strict=True)
        x0, x1 = _pixels_of(min(xs) - reach, max(xs) + reach, self._pixels.shape[1])
        y0, y1 = _pixels_of(min(ys) - reach, max(ys) + reach, self._pixels.shape[0])
        coverage = np.zeros((y1 - y0, x1 - x0))
        ends = [(x - x0, y - y0) for x, y in points]
        for start, end in itertools.pairwise(ends if len(ends) > 1 else ends * 2):
            _cover(coverage, start, end, width)
        part = self._pixels[y0:y1, x0:x1]
        part += coverage[:, :, None] * (np.array(color) - part)

    def text(self, words: str, x: float, y: float, color: Color, *, size: float, anchor: str = "start") -> None:
        """Write a number or a few words; a character without strokes is a gap.

        Args:
            words: The words.
            x: Place of their start, middle or end.
            y: Place of the line on which they stand.
            color: Their color.
            size: Height of a digit, in pixels.
            anchor: "start", "middle" or "end".
        """
        unit = size / _CAPITAL
        length = (len(words) * _ADVANCE - 2) * unit
        left = x - {"start": 0.0, "middle": length / 2, "end": length}[anchor]
        for place, character in enumerate(words):
            for stroke in filter(None, _STROKES.get(character, "").split("|")):
                at = left + place * _ADVANCE * unit
                points = [(at + int(xy[0]) * unit, y - (int(xy[1]) - _BASELINE) * unit) for xy in stroke.split()]
                self.line(points, color, width=max(1.2, size / 8))

    def png(self) -> bytes:
        """Return the image."""
        return true_color_png(np.round(self._pixels).astype(np.uint8))


def _pixels_of(first: float, last: float, most: int) -> tuple[int, int]:
    begin = min(max(0, round(first)), most - 1)
    return begin, min(max(begin + 1, round(last)), most)


def _cover(coverage: NDArray[np.float64], start: Point, end: Point, width: float) -> None:
    """Raise the coverage of the pixels near the stretch from `start` to `end`."""
    (ax, ay), (bx, by) = start, end
    reach = width / 2 + 1
    height, across = coverage.shape
    x0, x1 = _pixels_of(min(ax, bx) - reach, max(ax, bx) + reach, across)
    y0, y1 = _pixels_of(min(ay, by) - reach, max(ay, by) + reach, height)
    x, y = np.arange(x0, x1) + 0.5 - ax, (np.arange(y0, y1) + 0.5 - ay)[:, None]
    dx, dy = bx - ax, by - ay
    along = np.clip((x * dx + y * dy) / (dx * dx + dy * dy or 1.0), 0.0, 1.0)
    distance = np.hypot(x - along * dx, y - along * dy)
    part = coverage[y0:y1, x0:x1]
    np.maximum(part, np.clip(width / 2 + 0.5 - distance, 0.0, 1.0), out=part)
