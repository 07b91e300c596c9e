"""The scale and the smoothing of curves that a reader chose."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

from trackside.trial.tensors.buckets import Buckets, bucketed, edges_of
from trackside.views.report.charts.line_chart import Axis, line_chart
from trackside.views.report.charts.look import AS_IT_FITS, LINEAR, LOGARITHMIC, Look, smoothed


def curve(values: list[float]) -> Buckets:
    return bucketed(np.arange(len(values)), np.array(values), edges_of(0, len(values) - 1, 400))


@pytest.mark.parametrize(
    ("query", "look"),
    [
        pytest.param({}, AS_IT_FITS, id="nothing"),
        pytest.param({"scale": "log", "smooth": "10"}, Look(LOGARITHMIC, 10), id="both"),
        pytest.param({"scale": "linear"}, Look(LINEAR), id="scale"),
        pytest.param({"scale": "cubic", "smooth": "11"}, AS_IT_FITS, id="unknown-words"),
        pytest.param({"smooth": "<script>"}, AS_IT_FITS, id="hostile"),
    ],
)
def test_the_look_of_an_address(query: Mapping[str, str], look: Look) -> None:
    assert Look.of(query) == look
    assert Look.of(look.query) == look


@pytest.mark.parametrize(
    ("values", "scale", "height_of_middle"),
    [
        pytest.param([1.0, 10.0, 100.0], LOGARITHMIC, 0.5, id="two-decades"),
        pytest.param([2.0, 4.0, 8.0], LOGARITHMIC, 0.5, id="less-than-a-decade"),
        pytest.param([1e-6, 1.0, 2.0], LINEAR, 0.5, id="many-decades-linear"),
        pytest.param([-10.0, 0.0, 10.0], LOGARITHMIC, 0.5, id="through-zero"),
        pytest.param([3.0, 3.0, 3.0], LOGARITHMIC, 0.5, id="constant"),
        pytest.param([0.0, 0.0, 0.0], LOGARITHMIC, 0.0, id="zeros"),
    ],
)
def test_the_chosen_scale(values: list[float], scale: str, height_of_middle: float) -> None:
    axis = Axis.of(curve(values), scale=scale)
    assert axis.share(values[1]) == pytest.approx(height_of_middle, abs=0.06)
    assert len(list(axis.ticks())) >= 1


def test_a_smoothed_curve_stands_beside_the_one_that_was_measured() -> None:
    values = [1.0 + (-1) ** step for step in range(100)]
    drawn = line_chart("loss", curve(values), steps=(0, 99), look=Look(LINEAR, 10))
    assert re.findall(r'class="(curve[^"]*)"', drawn) == ["curve measured", "curve"]
    assert re.findall(r'class="(curve[^"]*)"', line_chart("loss", curve(values), steps=(0, 99))) == ["curve"]


@pytest.mark.parametrize(
    ("values", "points", "expected"),
    [
        pytest.param([4.0, 4.0, 4.0], 10, [4.0, 4.0, 4.0], id="a-constant-stays-from-the-first-number-on"),
        pytest.param([0.0, 1.0], 2, [0.0, 2 / 3], id="the-newest-weighs-most"),
        pytest.param([1.0, np.nan, 1.0], 10, [1.0, np.nan, 1.0], id="a-gap-leaves-no-trace"),
        pytest.param([1.0, np.inf, 3.0], 0, [1.0, np.nan, 3.0], id="none"),
    ],
)
def test_smoothing(values: list[float], points: int, expected: list[float]) -> None:
    np.testing.assert_allclose(smoothed(np.array(values), points), expected)


def test_smoothing_is_a_weighted_mean() -> None:
    """Against the sum that defines it, term by term."""
    values = np.random.default_rng(0).normal(size=50)
    kept = 1 - 1 / 10
    for place, value in enumerate(smoothed(values, 10)):
        weights = kept ** np.arange(place, -1, -1)
        assert value == pytest.approx(float((weights * values[: place + 1]).sum() / weights.sum()))
