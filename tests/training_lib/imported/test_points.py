"""Points of a series: bounded, in order, and no NaN lost."""

from __future__ import annotations

import numpy as np
import pytest

from trackside.imported.points import Gathering, in_order, merged, points_of, thinned


def test_a_short_series_is_kept_as_it_is() -> None:
    own = Gathering()
    own.add(3, 0.5, 7.0)
    own.extend([4, 5], [0.25, np.nan])
    found = own.points()
    assert (found.steps.tolist(), found.times.tolist(), found.merged) == ([3, 4, 5], [7.0, 0.0, 0.0], 1)
    np.testing.assert_array_equal(found.values, [0.5, 0.25, np.nan])


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_a_long_series_becomes_means_of_neighbours(at_once: int) -> None:
    values = np.random.default_rng(0).normal(size=10_000)
    own, steps = Gathering(most=100), np.arange(10_000)
    for first in range(0, 10_000, at_once):
        own.extend(steps[first : first + at_once], values[first : first + at_once])
        assert len(own) <= 2 * 16_384 + at_once
    found = own.points()
    each = found.merged
    assert 100 <= len(found) <= 201
    assert found.steps[0] == each - 1
    assert found.values[0] == pytest.approx(values[:each].mean())
    assert found.values[5] == pytest.approx(values[5 * each : 6 * each].mean())


def test_no_nan_is_lost_and_counters_keep_the_last() -> None:
    values = np.zeros(1000)
    values[[17, 500]] = np.nan, np.inf
    found = thinned(points_of(np.arange(1000), values), 100)
    assert np.flatnonzero(~np.isfinite(found.values)).tolist() == [1, 50]
    assert merged(points_of([1, 2, 3], [10, 20, 30]), 2, counts=True).values.tolist() == [20, 30]
    assert thinned(found, 100) is found


def test_each_step_counts_once_and_the_newest_holds() -> None:
    found = in_order(points_of([5, 1, 5, 3], [0.1, 0.2, 0.3, 0.4]))
    assert (found.steps.tolist(), found.values.tolist()) == ([1, 3, 5], [0.2, 0.4, 0.3])
    sorted_already = points_of([1, 2], [0.1, 0.2])
    assert in_order(sorted_already) is sorted_already
