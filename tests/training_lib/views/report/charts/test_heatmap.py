"""Pictures of layers over steps: a linear scale, and the rank of each cell in its column."""

from __future__ import annotations

import re

import numpy as np
import pytest

from trackside.views.report.charts.heatmap import _BROKEN, _SIZE, Heatmap, _colors, _ranks, _sizes, heatmap_figure

NAN = float("nan")


def heatmap(values: list[list[float]], *, scale: tuple[float, float] | None = None) -> Heatmap:
    found = np.array(values)
    broken = np.isinf(found)
    names = tuple(f"layer.{row}" for row in range(len(values)))
    return Heatmap("Norm", names, np.arange(found.shape[1] + 1), np.where(broken, np.nan, found), broken, scale=scale)


@pytest.mark.parametrize(
    ("column", "brightness"),
    [
        pytest.param([1.0, 2.0, 3.0], [0.0, 0.5, 1.0], id="in-order"),
        pytest.param([1e-9, 1e9, 1.0], [0.0, 1.0, 0.5], id="whatever-the-scale"),
        pytest.param([-5.0, 0.0, 5.0], [0.0, 0.5, 1.0], id="below-zero"),
        pytest.param([2.0, 2.0, 2.0], [0.0, 0.0, 0.0], id="all-equal"),
        pytest.param([NAN, 7.0, NAN], [None, 0.5, None], id="one-number"),
        pytest.param([NAN, 7.0, 8.0], [None, 0.0, 1.0], id="one-is-missing"),
        pytest.param([NAN, NAN, NAN], [None, None, None], id="none"),
    ],
)
def test_cells_are_ranked_in_their_column(column: list[float], brightness: list[float | None]) -> None:
    places, _ = _ranks(heatmap([[value] for value in column]))
    assert [None if place == 0 else round(int(place - 2) / 126, 1) for place in places[:, 0]] == brightness


def test_a_number_that_is_not_finite_is_magenta_in_each_view() -> None:
    found = heatmap([[1.0, float("inf")], [2.0, 3.0]])
    for places, colors in (_ranks(found), _sizes(found)[0]):
        assert tuple(colors[places[0, 1]]) == _BROKEN


@pytest.mark.parametrize(
    ("value", "share"),
    [
        pytest.param(0.0, 0.0, id="least"),
        pytest.param(50.0, 0.5, id="half"),
        pytest.param(100.0, 1.0, id="most"),
        pytest.param(180.0, 1.0, id="beyond"),
    ],
)
def test_a_share_has_a_linear_scale(value: float, share: float) -> None:
    (places, _), low, high = _sizes(heatmap([[value]], scale=(0.0, 100.0)))
    assert (low, high) == (0.0, 100.0)
    assert places[0, 0] == round(2 + 126 * share)
    assert len(_colors(_SIZE)) == 2 + 2 * 127


@pytest.mark.parametrize(
    ("scale", "views"), [pytest.param(None, 3, id="layers"), pytest.param((0.0, 100.0), 1, id="a-share")]
)
def test_views_are_chosen_where_there_are_several(scale: tuple[float, float] | None, views: int) -> None:
    figure = str(heatmap_figure(heatmap([[1.0, 2.0]], scale=scale), number_of=0))
    assert len(re.findall("<img", figure)) == views
    assert len(re.findall('type="radio"', figure)) == (views if views > 1 else 0)
