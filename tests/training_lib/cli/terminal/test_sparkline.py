from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.cli.terminal.sparkline import ASCII_BLOCKS, BLOCKS, is_log_scaled, sparkline


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param([0.0, 7.0], "▁█", id="rising"),
        pytest.param([3.0, 3.0, 3.0], "▅▅▅", id="constant-lies-in-the-middle"),
        pytest.param([0.0, 0.0], "▁▁", id="zero"),
        pytest.param([1.0, 1.01, 1.0], "▄▅▄", id="a-wobble-is-no-mountain"),
        pytest.param([1e-1, 1e-4, 1e-8], "█▅▁", id="decades"),
        pytest.param([1.0, math.nan, 2.0], "▁×█", id="nan"),
        pytest.param([1.0, 2.0, math.inf], "▁██", id="infinity-at-the-top"),
        pytest.param([-math.inf, 1.0, 2.0], "▁▁█", id="minus-infinity-at-the-bottom"),
        pytest.param([math.nan, math.nan], "××", id="only-nan"),
        pytest.param([-1.7e308, 1.7e308], "▁█", id="the-largest-floats"),
    ],
)
def test_draws(values: list[float], shown: str) -> None:
    assert sparkline(values) == shown


@given(st.lists(st.floats()), st.booleans())
def test_one_character_for_each_value_whatever_it_is(values: list[float], ascii_only: bool) -> None:
    line = sparkline(values, ascii_only=ascii_only)
    assert len(line) == len(values)
    assert set(line) <= set(ASCII_BLOCKS + "?" if ascii_only else BLOCKS + "×")
    assert line.isascii() or not ascii_only


@given(st.lists(st.floats(1e-30, 1e30), min_size=2))
def test_a_larger_value_never_stands_lower(values: list[float]) -> None:
    heights = [BLOCKS.index(character) for character in sparkline(values)]
    ranked = sorted(zip(values, heights, strict=True))
    assert [height for _, height in ranked] == sorted(heights)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([1.0, 101.0], True, id="over-two-decades"),
        pytest.param([1.0, 99.0], False, id="under-two-decades"),
        pytest.param([0.0, 1e9], False, id="zero-has-no-logarithm"),
        pytest.param([-1.0, 1e9], False, id="negative"),
        pytest.param([], False, id="nothing"),
        pytest.param([math.inf, math.nan], False, id="nothing-finite"),
    ],
)
def test_the_scale(values: list[float], expected: bool) -> None:
    assert is_log_scaled(values) is expected
