from __future__ import annotations

import math

import numpy as np
import pytest

from trackside.trial.tensors.buckets import bucketed, edges_of
from trackside.views.report.charts.line_chart import HEIGHT, Axis, line_chart, number


def axis_of(values: list[float]) -> Axis:
    return Axis.of(bucketed(np.arange(len(values)), np.asarray(values, float), edges_of(0, len(values) - 1, 400)))


NOISE = np.random.default_rng(0).normal(size=400)


@pytest.mark.parametrize(
    ("values", "is_log", "is_both"),
    [
        pytest.param([1.0, 2.0, 50.0], False, False, id="positive-within-two-decades"),
        pytest.param([1.0, 2.0, 5000.0], True, False, id="positive-over-decades"),
        pytest.param([0.0, 2.0, 50.0], False, False, id="a-zero-within-two-decades"),
        pytest.param([0.0, 2.0, 5000.0], False, True, id="a-zero-and-decades"),
        pytest.param([0.0, -2.0, -5000.0], False, True, id="a-zero-and-decades-below-it"),
        pytest.param([0.0, 0.0], False, False, id="zeros"),
        pytest.param(NOISE.tolist(), False, False, id="noise-around-zero"),
        pytest.param([-1e-9, *np.linspace(1, 50, 40)], False, False, id="one-tiny-number-below-zero"),
        pytest.param([*NOISE, -5e4], False, True, id="a-spike-below-zero"),
        pytest.param([-1.0, 10.0, -100.0, 1e3, -1e4, 1e5], False, True, id="both-signs-over-decades"),
        pytest.param([-1e-300, 1e300, 1.0, -1.0], False, True, id="all-that-a-number-can-be"),
        pytest.param([-math.inf, 1.0, -1.0, math.nan], False, False, id="broken-numbers-have-no-place"),
    ],
)
def test_a_curve_over_decades_has_a_logarithmic_axis(values: list[float], is_log: bool, is_both: bool) -> None:
    axis = axis_of(values)
    assert (axis.is_log, axis.linear > 0) == (is_log, is_both)
    shares = [axis.share(value) for value in sorted(value for value in values if math.isfinite(value))]
    assert shares == sorted(shares)
    ticks = sorted(axis.ticks())
    assert 1 <= len(ticks) <= 9
    assert all(0 <= axis.y(tick) <= HEIGHT for tick in ticks)
    assert not is_both or 0.0 in ticks


def test_both_signs_are_seen_where_a_spike_would_hide_them() -> None:
    """The noise before a spike fills a good part of the picture, and equal sizes lie at equal distances from 0."""
    values = [*NOISE, -5e4]
    axis = axis_of(values)
    heights = [axis.share(value) for value in values]
    assert max(heights[:-1]) - min(heights[:-1]) > 0.2
    middle = axis.share(0.0)
    for size in (0.5, 2.0):
        assert axis.share(size) - middle == pytest.approx(middle - axis.share(-size))


def test_far_from_zero_each_decade_has_the_same_height() -> None:
    axis = axis_of([-1.0, 10.0, -100.0, 1e3, -1e4, 1e5])
    ours = np.diff([axis.share(value) for value in (1e3, 1e4, 1e5)])
    assert ours[1] == pytest.approx(ours[0], rel=0.02)


def test_the_caption_names_an_axis_of_both_signs() -> None:
    found = bucketed(np.arange(401), np.array([*NOISE, -5e4]), edges_of(0, 400, 400))
    assert "; logarithmic on both sides of 0" in line_chart("difference", found, steps=(0, 400))
    zeros = bucketed(np.arange(3), np.array([0.0, 2.0, 5000.0]), edges_of(0, 2, 400))
    assert "; logarithmic, and even near 0" in line_chart("norm", zeros, steps=(0, 2))
    plain = bucketed(np.arange(400), NOISE, edges_of(0, 399, 400))
    assert "logarithmic" not in line_chart("difference", plain, steps=(0, 399))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0.0, "0", id="zero"),
        pytest.param(999.4, "999", id="below-a-thousand"),
        pytest.param(999.6, "1,000", id="rounded-up"),
        pytest.param(1081.0, "1,080", id="thousands"),
        pytest.param(-12_345.0, "-12,300", id="below-zero"),
        pytest.param(99_949.0, "99,900", id="the-largest"),
        pytest.param(123_456.0, "1.23e+05", id="larger"),
        pytest.param(-0.0, "0", id="zero-from-below"),
        pytest.param(math.nan, "nan", id="no-number"),
    ],
)
def test_thousands_are_written_out(value: float, text: str) -> None:
    assert number(value) == text
