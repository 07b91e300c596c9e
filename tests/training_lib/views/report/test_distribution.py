"""Values of a tensor over steps, held against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.training_lib.local.verdicts import finding, issue
from tests.training_lib.views.report.charts.test_markup import seen
from tests.training_lib.views.report.recorded import recorded_trial
from trackside.contracts.issue_group import issue_groups
from trackside.trial.trial import Trial
from trackside.views.report.charts.wall_time import WallTime
from trackside.views.report.distribution import (
    MOST_STEPS,
    MOST_TENSORS,
    QUANTILES,
    bins_of,
    distribution_of,
    distributions,
)
from trackside.views.report.distribution_figure import distribution_figure

NAME = "Net_fc.weight"
VALUES = np.random.default_rng(1).normal(size=(100, 50)).astype(np.float32)


def saved(values: np.ndarray, *, every: int = 10) -> Trial:
    return recorded_trial({}, saved={place * every: {NAME: row} for place, row in enumerate(values)})


def test_quantiles_are_those_of_numpy_at_the_ends_and_between() -> None:
    found = distribution_of(saved(VALUES), NAME, (0, 2000))
    assert found is not None
    assert len(found.steps) == MOST_STEPS
    assert (int(found.steps[0]), int(found.steps[-1])) == (0, 990)
    assert found.left_out == 100 - MOST_STEPS
    for step, quantiles, counts in zip(found.steps.tolist(), found.quantiles, found.counts, strict=True):
        np.testing.assert_allclose(quantiles, np.quantile(VALUES[step // 10].astype(float), QUANTILES))
        assert counts.sum() == VALUES.shape[1]


def test_only_the_steps_of_the_window_are_read() -> None:
    found = distribution_of(saved(VALUES), NAME, (95, 120))
    assert found is not None
    assert found.steps.tolist() == [100, 110, 120]


@given(arrays(np.float64, st.integers(2, 60), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)))
def test_every_finite_value_has_a_bin_and_every_other_is_counted(values: np.ndarray) -> None:
    finite = values[np.isfinite(values)]
    edges = bins_of([values])
    assert np.all(np.diff(edges) >= 0)
    assert np.isfinite(edges).all()
    if len(finite):
        assert np.histogram(finite, edges)[0].sum() == len(finite)


def test_numbers_that_are_not_finite_are_counted_and_drawn() -> None:
    values = VALUES[:5].copy()
    values[2, :3] = math.nan
    values[4] = math.inf
    found = distribution_of(saved(values), NAME, (0, 100))
    assert found is not None
    assert found.broken.tolist() == [0, 0, 3, 0, 50]
    page = distribution_figure(found)
    assert "53 numbers are not finite" in page
    assert page.count('class="broken"') == 2
    assert "nan" not in page.partition("<details")[0]


@pytest.mark.parametrize(
    "values", [np.zeros((3, 8)), np.full((1, 8), 2.5), np.full((3, 8), np.nan), np.full((2, 8), 1.7e308)]
)
def test_odd_values_have_a_figure_of_finite_places(values: np.ndarray) -> None:
    found = distribution_of(saved(values), NAME, (0, 100))
    assert found is not None
    drawn = distribution_figure(found)
    for name, attributes in seen(drawn).elements:
        if name in {"path", "polyline", "line"}:
            assert not {"nan", "inf"} & {word for text in attributes.values() for word in [str(text)[:3].lower()]}


def test_without_values_the_recorded_sizes_are_shown() -> None:
    numbers = {f"gradient/{NAME}": {"abs_mean": {0: 1e-3, 10: 1e-5}, "abs_max": {0: 1e-1, 10: 1e-2}}}
    found = distribution_of(recorded_trial(numbers), f"gradient/{NAME}", (0, 10))
    assert found is not None
    assert [title for title, _ in found.sizes] == ["mean size of an element", "largest element"]
    assert "log₁₀" in distribution_figure(found)


def test_tensors_that_findings_name_come_first_and_hostile_names_stay_text() -> None:
    hostile = "gradient/Net_</svg><script>alert(1)</script>.weight"
    names = [f"Net_layer.{number:02d}.weight" for number in range(9)]
    trial = recorded_trial({}, saved={step: dict.fromkeys([*names, hostile], VALUES[0]) for step in (0, 10)})
    found = distributions(trial, issue_groups([issue(findings=(finding(hostile),))]), (0, 10))
    assert [one.name for one in found] == [hostile, *names[: MOST_TENSORS - 1]]
    assert "script" not in {name for name, _ in seen(distribution_figure(found[0])).elements}


def test_over_wall_time_a_pause_is_as_wide_as_it_was() -> None:
    """Saved at steps 0, 10 and 20; between the second and the third the training stood still for ninety seconds."""
    found = distribution_of(saved(np.linspace(-1, 1, 3 * 50).reshape(3, 50)), NAME, (0, 20))
    assert found is not None
    clock = WallTime(np.array([0.0, 10.0, 20.0]), np.array([0.0, 10.0, 100.0]))
    by_steps, by_time = (
        next(str(a["points"]) for _, a in seen(distribution_figure(found, clock=each)).elements if "points" in a)
        for each in (None, clock)
    )
    places = [[float(point.split(",")[0]) for point in points.split()] for points in (by_steps, by_time)]
    shares = [[(x - line[0]) / (line[-1] - line[0]) for x in line] for line in places]
    assert shares[0] == pytest.approx([0.0, 0.5, 1.0], abs=0.01)
    assert shares[1] == pytest.approx([0.0, 0.1, 1.0], abs=0.01)
    assert "1 min 40 s" in seen(distribution_figure(found, clock=clock)).text
