"""Weights between two steps, held against NumPy and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from tests.training_lib.views.report.recorded import recorded_trial
from trackside.views.report.weight_difference import both_values, divergence_of, tensor_difference, weight_difference

NAME, OTHER = "Net_fc.weight", "Net_fc.bias"
RANDOM = np.random.default_rng(3)
BEFORE = RANDOM.normal(size=(8, 8))
AFTER = BEFORE + RANDOM.normal(size=(8, 8)) / 3


def test_saved_values_are_compared_exactly_at_the_nearest_steps() -> None:
    trial = recorded_trial({}, saved={0: {NAME: BEFORE}, 50: {NAME: BEFORE}, 100: {NAME: AFTER}})
    found = weight_difference(trial, 45, 103).found
    assert [(one.name, one.first, one.last) for one in found] == [(NAME, 50, 100)]
    assert found[0].change == pytest.approx(np.linalg.norm(AFTER - BEFORE) / np.linalg.norm(BEFORE))
    cosine = float(BEFORE.ravel() @ AFTER.ravel() / np.linalg.norm(BEFORE) / np.linalg.norm(AFTER))
    assert found[0].cosine == pytest.approx(cosine)
    assert found[0].turned_share == pytest.approx(np.mean(np.sign(BEFORE) != np.sign(AFTER)))
    values = both_values(trial, NAME, 45, 103)
    assert values is not None
    np.testing.assert_allclose(values.quantiles[1, 3], np.median(AFTER))
    assert "51" not in repr(weight_difference(trial, 45, 103))


@given(st.lists(st.lists(st.floats(-3, 3), min_size=4, max_size=4), min_size=2, max_size=6))
def test_recorded_norms_enclose_what_really_changed(walk: list[list[float]]) -> None:
    weights = np.cumsum([[1.0, 2.0, 3.0, 4.0], *walk], axis=0)
    norms = {step: float(np.linalg.norm(w)) for step, w in enumerate(weights)}
    updates = {step: float(np.linalg.norm(weights[step + 1] - weights[step])) for step in range(len(weights) - 1)}
    trial = recorded_trial({NAME: {"l2": norms, "update_l2": updates}})
    found = tensor_difference(trial, NAME, 0, len(weights) - 1)
    assert found is not None
    assert found.change is None
    really = float(np.linalg.norm(weights[-1] - weights[0]) / np.linalg.norm(weights[0]))
    assert found.most_change is not None
    assert found.least_change <= really + 1e-5
    assert really <= found.most_change + 1e-5


def test_a_gap_between_updates_leaves_the_upper_end_open() -> None:
    trial = recorded_trial({NAME: {"l2": {0: 1.0, 10: 3.0}, "update_l2": {0: 0.1, 10: 0.1}}})
    found = tensor_difference(trial, NAME, 0, 10)
    assert found is not None
    assert (found.least_change, found.most_change) == (2.0, None)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20))
def test_the_divergence_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs).T
    if a.sum() and b.sum():
        assert divergence_of(a, b) == pytest.approx(float(jensenshannon(a, b, base=2)) ** 2, abs=1e-6)


def test_weights_that_broke_stand_first() -> None:
    broken = AFTER.copy()
    broken[0, 0] = math.nan
    trial = recorded_trial({}, saved={0: {NAME: BEFORE, OTHER: BEFORE}, 9: {NAME: BEFORE * 50, OTHER: broken}})
    found = weight_difference(trial, 0, 9)
    assert [one.name for one in found.found] == [OTHER, NAME]
    assert found.found[0].broken == 1
    assert "1 not finite" in found._repr_html_()


def test_one_saved_step_is_no_difference() -> None:
    assert weight_difference(recorded_trial({}, saved={5: {NAME: BEFORE}}), 0, 9).found == ()
