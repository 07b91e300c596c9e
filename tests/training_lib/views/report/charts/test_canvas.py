"""Pixels of known places."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from numpy.typing import NDArray

from trackside.views.report.charts.canvas import _STROKES, Canvas
from trackside.views.report.charts.line_chart import number

WHITE, BLACK, BLUE = (255, 255, 255), (0, 0, 0), (0, 0, 255)


def pixels(image: bytes) -> NDArray[np.uint8]:
    """Return the pixels of a true-color PNG with unfiltered lines, read by the format's description."""
    width, height = struct.unpack(">II", image[16:24])
    content, at = b"", 8
    while at < len(image):
        (length,) = struct.unpack(">I", image[at : at + 4])
        if image[at + 4 : at + 8] == b"IDAT":
            content += image[at + 8 : at + 8 + length]
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(content), np.uint8).reshape(height, 3 * width + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


@pytest.mark.parametrize(
    ("points", "drawn", "blank"),
    [
        pytest.param([(2, 5.5), (17, 5.5)], [(5, 2), (5, 10), (5, 17)], [(2, 10), (9, 10)], id="level"),
        pytest.param([(9.5, 1), (9.5, 9)], [(2, 9), (8, 9)], [(5, 5), (5, 14)], id="upright"),
        pytest.param([(2, 2), (8, 8)], [(3, 3), (6, 6)], [(2, 8), (8, 2)], id="slanting"),
        pytest.param([(9.5, 5.5)], [(5, 9)], [(5, 5), (1, 9)], id="a-dot"),
        pytest.param([(-50, 5.5), (500, 5.5)], [(5, 0), (5, 19)], [(0, 0)], id="beyond-both-edges"),
        pytest.param([(500, 500), (600, 600)], [], [(0, 0), (5, 10)], id="outside"),
    ],
)
def test_a_line_is_where_it_was_drawn(
    points: list[tuple[float, float]], drawn: list[tuple[int, int]], blank: list[tuple[int, int]]
) -> None:
    canvas = Canvas(20, 11, WHITE)
    canvas.line(points, BLACK, width=2)
    found = pixels(canvas.png())
    assert all(found[place].max() < 60 for place in drawn)
    assert all(found[place].min() == 255 for place in blank)


def test_a_box_lets_the_ground_through() -> None:
    canvas = Canvas(10, 10, WHITE)
    canvas.box(2, 3, 5, 6, BLUE, opacity=0.5)
    found = pixels(canvas.png())
    assert found[4, 3].tolist() == [128, 128, 255]
    assert found[4, 6].tolist() == found[7, 3].tolist() == [255, 255, 255]


@pytest.mark.parametrize("anchor", ["start", "middle", "end"])
def test_words_stand_at_their_place(anchor: str) -> None:
    canvas = Canvas(200, 40, WHITE)
    canvas.text("step 10", 100, 30, BLACK, size=12, anchor=anchor)
    columns = np.flatnonzero((pixels(canvas.png()) < 128).any(axis=(0, 2)))
    center = {"start": 100 + 40, "middle": 100, "end": 100 - 40}[anchor]
    assert abs((columns[0] + columns[-1]) / 2 - center) < 4
    assert abs(columns[-1] - columns[0] - 80) < 8


@pytest.mark.parametrize("value", [0.0, -1.25e-7, 12345.0, 3.5e20, 1e-300, 0.067])
def test_every_number_can_be_written(value: float) -> None:
    assert set(number(value)) <= set(_STROKES)


@pytest.mark.parametrize("words", ["since step 300", "loss"])
def test_every_word_can_be_written(words: str) -> None:
    assert set(words) - {" "} <= set(_STROKES)
