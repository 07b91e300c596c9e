from __future__ import annotations

import math

import pytest

from trackside.cli.terminal.plot import LABEL_COLUMNS, plot


def test_a_falling_line_goes_from_the_top_to_the_bottom() -> None:
    lines = plot([0, 1, 2, 3], [3.0, 2.0, 1.0, 0.0], width=LABEL_COLUMNS + 4, height=4, ascii_only=True)
    assert lines == ["      3 |*", "        | *", "        |  *", "      0 |   *"]


def test_braille_has_two_by_four_dots_in_a_character() -> None:
    lines = plot([0, 7], [1.0, 0.0], width=LABEL_COLUMNS + 4, height=2)
    assert [line[LABEL_COLUMNS:] for line in lines] == ["⠑⢄", "⠀⠀⠑⢄"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        pytest.param([], "no value yet", id="none"),
        pytest.param([math.nan, math.inf], "no finite value", id="not finite"),
        pytest.param([5.0], "5 |*", id="one"),
        pytest.param([0.0, 0.0, 0.0], "0 |***", id="zeros"),
        pytest.param([1e308, -1e308], "1e+308 |*", id="as far apart as numbers get"),
        pytest.param([1.0, math.nan, 1.0], "x", id="a gap is marked"),
    ],
)
def test_odd_values_are_drawn_or_named(values: list[float], shown: str) -> None:
    lines = plot(list(range(len(values))), values, width=LABEL_COLUMNS + 3, height=3, ascii_only=True)
    assert len(lines) == 3
    assert any(shown in line for line in lines), lines
    assert max(map(len, lines)) <= max(LABEL_COLUMNS + 3, len("no finite value"))


def test_more_than_two_decades_have_a_log_scale() -> None:
    values = [1000.0, 100.0, 10.0, 1.0]
    lines = plot([0, 1, 2, 3], values, width=LABEL_COLUMNS + 4, height=4, ascii_only=True)
    assert [line[LABEL_COLUMNS:] for line in lines] == ["*", " *", "  *", "   *"]
