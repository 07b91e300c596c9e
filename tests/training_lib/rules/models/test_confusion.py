"""confusion: on the labels and predictions that smdebug's hook saves of XGBoost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import Row, every_case
from trackside.rules.models.confusion import Confusion, as_classes, confusion_matrix, worst_cell
from trackside.testing.rule_case import RuleCase, Tensors, assert_case

COLLECTIONS = {"labels": ("^labels$",), "predictions": ("^predictions$",)}
USUAL_RULE, LENIENT = Confusion(), Confusion(min_diag=0.5, max_off_diag=0.5)
NAMED = Confusion(labels="y", predictions="yhat")
STEP = 10  # the first that is judged
TRUE = np.repeat([0.0, 1.0, 2.0], 20)  # floating, as XGBoost's


def wrong(count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Predictions of which so many of class 0 are taken for 1."""
    return np.concatenate([[1.0] * count, TRUE[count:]])


def saved(labels: Any, predictions: Any) -> Tensors:
    return {"labels": {STEP: labels}, "predictions": {STEP: predictions}}


def rows_of(classes: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Probabilities whose largest is that class."""
    return np.asarray(0.1 + 0.7 * np.eye(3)[classes.astype(int)])


BINARY = np.repeat([0.0, 1.0], 20)
FIRES = [
    Row("a fifth of a class is mistaken", saved(TRUE, wrong(4)), fires=("predictions",), collections=COLLECTIONS),
    Row("rows of probabilities", saved(TRUE, rows_of(wrong(4))), fires=("predictions",), collections=COLLECTIONS),
    Row("probabilities of class 1", saved(BINARY, np.full(40, 0.3)), fires=("predictions",), collections=COLLECTIONS),
    Row("under other names", {"y": {STEP: TRUE}, "yhat": {STEP: wrong(9)}}, fires=("yhat",), rule=NAMED),
    Row("most of a class, to a lenient rule", saved(TRUE, wrong(15)), fires=("predictions",), rule=LENIENT),
]
SILENT = [
    Row("all are found", saved(TRUE, TRUE), collections=COLLECTIONS),
    Row("rows of probabilities, one of a class mistaken", saved(TRUE, rows_of(wrong(1))), collections=COLLECTIONS),
    Row("probabilities on the right side", saved(BINARY, 0.2 + 0.6 * BINARY), collections=COLLECTIONS),
    Row("under other names", {"y": {STEP: TRUE}, "yhat": {STEP: wrong(9)}}),
    Row("a fifth, to a lenient rule", saved(TRUE, wrong(4)), rule=LENIENT),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


@pytest.mark.parametrize(
    ("labels", "predictions"),
    [
        pytest.param(TRUE, TRUE[:10], id="another number"),
        pytest.param(TRUE - 5, TRUE, id="classes below zero"),
        pytest.param(TRUE * 1000, TRUE, id="too many classes"),
        pytest.param(TRUE, TRUE * np.nan, id="not finite"),
        pytest.param(np.zeros((2, 3, 4)), np.zeros((2, 3, 4)), id="no vector"),
    ],
)
def test_what_cannot_be_judged_is_lacking(labels: Any, predictions: Any) -> None:
    case = RuleCase("odd", saved(labels, predictions), collections=COLLECTIONS)
    assert_case(USUAL_RULE, case)
    assert "class labels" in USUAL_RULE.lacks(case.window)


def test_a_class_that_never_came_has_no_share() -> None:
    assert worst_cell(np.array([[5, 0, 0], [0, 0, 0], [0, 0, 5]]), min_diag=0.9, max_off_diag=0.1) is None
    case = RuleCase("two of ten classes", saved(BINARY, BINARY), collections=COLLECTIONS)
    assert_case(Confusion(category_no=10), case)


@pytest.mark.parametrize(
    ("matrix", "measure"),
    [
        pytest.param([[6, 4], [0, 10]], "share of class 0 that is found", id="a class that is not found"),
        pytest.param([[90, 10], [0, 5]], "share of class 0 among what is predicted as 1", id="a mix of predictions"),
    ],
)
def test_the_worst_cell_is_named(matrix: list[list[int]], measure: str) -> None:
    found = worst_cell(np.array(matrix), min_diag=0.9, max_off_diag=0.1)
    assert found is not None
    assert found.measure == measure


def test_an_untrained_model_is_judged_in_amazons_sense_only() -> None:
    untrained: Tensors = {"labels": {0: TRUE}, "predictions": {0: wrong(9)}}
    case = RuleCase("untrained", untrained, collections=COLLECTIONS)
    assert_case(USUAL_RULE, case)
    assert "at step 10 or later" in USUAL_RULE.lacks(case.window)
    of_amazon = Confusion.from_parameters({}, preset="aws-docs")
    assert_case(of_amazon, RuleCase("untrained", untrained, fires=("predictions",), collections=COLLECTIONS))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=50))
def test_the_matrix_counts_each_sample_once(pairs: list[tuple[int, int]]) -> None:
    labels, predictions = (np.array(column) for column in zip(*pairs, strict=True))
    matrix = confusion_matrix(labels, predictions, classes=5)
    assert matrix.sum() == len(pairs)
    assert all(matrix[i, j] == pairs.count((i, j)) for i in range(5) for j in range(5))
    assert as_classes(labels.astype(float)) is not None
