"""The numbers of the section on a model, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from trackside.views.report.model.classification import CALIBRATION_BINS, calibration, class_scores, classified, cuts
from trackside.views.report.model.labelled import Family, Labelled
from trackside.views.report.model.regression import label_bins, r_squared, residuals

CLASSES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=80)
SCORES = st.lists(st.tuples(st.booleans(), st.integers(0, 20).map(lambda k: k / 20)), min_size=2, max_size=80)


@given(CLASSES)
def test_shares_of_classes_are_those_of_sklearn(pairs: list[tuple[int, int]]) -> None:
    labels, predicted = (np.array(each, np.float64) for each in zip(*pairs, strict=True))
    found = classified(Labelled(0, labels, predicted), Family.CLASSES, "multi:softmax")
    assert found is not None
    known = sorted({*labels.astype(int), *predicted.astype(int)})
    if len(known) > 1:  # of one class, scikit-learn warns
        expected_matrix = metrics.confusion_matrix(labels, predicted, labels=known)
        np.testing.assert_array_equal(found.matrix[np.ix_(known, known)], expected_matrix)
    scores = class_scores(found.matrix)
    expected = metrics.precision_recall_fscore_support(labels, predicted, labels=known, zero_division=0.0)
    for part, wanted in zip((scores.precision, scores.recall, scores.f1, scores.support), expected, strict=True):
        np.testing.assert_allclose(np.nan_to_num(part[known]), wanted)
    accuracy = metrics.accuracy_score(labels, predicted)
    for name, three in zip(("micro", "macro", "weighted"), scores.averages(accuracy).values(), strict=True):
        wanted = metrics.precision_recall_fscore_support(labels, predicted, average=name, zero_division=0.0)[:3]
        np.testing.assert_allclose(three, wanted)


@given(SCORES)
def test_curves_are_those_of_sklearn(pairs: list[tuple[bool, float]]) -> None:
    is_class, scores = np.array([k for k, _ in pairs]), np.array([s for _, s in pairs])
    found = cuts(is_class, scores)
    if 0 < is_class.sum() < len(is_class):
        assert found.area == pytest.approx(metrics.roc_auc_score(is_class, scores))
        assert found.average_precision == pytest.approx(metrics.average_precision_score(is_class, scores))
    else:
        assert np.isnan(found.area)
    means, shares, counts = calibration(is_class, scores)
    assert counts.sum() == len(scores)
    assert len(counts) <= CALIBRATION_BINS
    assert (counts * shares).sum() == pytest.approx(is_class.sum())
    assert (counts * means).sum() == pytest.approx(scores.sum())


@given(st.lists(st.tuples(st.integers(-100, 100), st.integers(-100, 100)), min_size=2, max_size=80))
def test_errors_are_those_of_sklearn(pairs: list[tuple[int, int]]) -> None:
    labels, predicted = (np.array(each, np.float64) for each in zip(*pairs, strict=True))
    saved = Labelled(0, labels, predicted)
    bins = label_bins((saved, saved))
    assert bins.count.sum() == len(labels)
    whole = np.nansum(bins.errors[-1] * bins.count) / len(labels)
    assert whole == pytest.approx(metrics.mean_absolute_error(labels, predicted))
    assert np.abs(residuals(saved)).max() == metrics.max_error(labels, predicted)
    if len({*labels}) > 1:
        assert r_squared(saved) == pytest.approx(metrics.r2_score(labels, predicted))


@pytest.mark.parametrize(
    ("labels", "predictions", "family", "is_known"),
    [
        pytest.param([0, 1], [0.2, 0.9], Family.BINARY, True, id="probabilities"),
        pytest.param([0, 1], [-4.0, 3.0], Family.BINARY, True, id="margins"),
        pytest.param([0, 2], [0.2, 0.9], Family.BINARY, False, id="three-classes-of-two"),
        pytest.param([0.5, 1], [0.2, 0.9], Family.BINARY, False, id="labels-between"),
        pytest.param([-1, 1], [0.2, 0.9], Family.BINARY, False, id="labels-below-zero"),
        pytest.param([0, 1], [[0.9, 0.1], [0.2, 0.8]], Family.CLASSES, True, id="rows-of-probabilities"),
        pytest.param([0, 1], [0.0, 1.5], Family.CLASSES, False, id="no-class-numbers"),
        pytest.param([0, 999], [0.0, 999.0], Family.CLASSES, True, id="a-thousand-classes"),
        pytest.param([0, 1000], [0.0, 1000.0], Family.CLASSES, False, id="more-classes-than-that"),
    ],
)
def test_only_class_numbers_are_classes(
    labels: list[float], predictions: list[float], family: Family, is_known: bool
) -> None:
    saved = Labelled(0, np.array(labels, np.float64), np.array(predictions))
    assert (classified(saved, family, "") is not None) is is_known
