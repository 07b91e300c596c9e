"""class-imbalance, as documented: counts of labels and of mispredictions over many batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.presets.rules.class_imbalance import DocumentedClassImbalance, SeenClasses, added, as_whole_numbers
from trackside.testing.fake_trial import WALL_TIME, fake_trial
from trackside.testing.rule_case import assert_finding

LABELS, PREDICTIONS = "my_labels", "my_predictions"
ROLE = {"labels": ("^Loss_input_1$",), "predictions": ("^Loss_input_0$",)}
EVEN, UNEVEN = np.tile([0, 1], 300), np.array([0] * 560 + [1] * 40)
WRONG = 1 - EVEN
ONE_SIDED = np.zeros(600, np.int64)  # class 1 is never named


def fired(rule: DocumentedClassImbalance, tensors: dict[str, Any]) -> list[str]:
    """The measures of the findings over all steps, each step judged once; state is carried through its text."""
    trial = fake_trial(
        {name: dict(enumerate(value)) if isinstance(value, list) else {0: value} for name, value in tensors.items()},
        collections=ROLE,
    )
    state, measures = rule.start(), []
    for step in trial.steps():
        state, findings = rule.fold(rule.load(rule.dump(state)), trial.window(step, now=WALL_TIME))
        for finding in findings:
            assert_finding(finding, step=step)
            measures.append(finding.measure)
    return measures


RULE = DocumentedClassImbalance()
IMBALANCE, MISPREDICTED = "largest class over the smallest", "mispredicted share of class 1"
ROWS_OF_SCORES = np.stack([1.0 - WRONG, WRONG], axis=1)
ARGMAX = DocumentedClassImbalance(argmax=True)
FIRES = [
    pytest.param(RULE, {LABELS: UNEVEN}, [IMBALANCE], id="fourteen to one"),
    pytest.param(RULE, {LABELS: np.array_split(UNEVEN, 6)}, [IMBALANCE], id="over several batches"),
    pytest.param(RULE, {"Loss_input_1": UNEVEN}, [IMBALANCE], id="labels of the loss"),
    pytest.param(RULE, {LABELS: EVEN, PREDICTIONS: ONE_SIDED}, [MISPREDICTED], id="a class that is never named"),
    pytest.param(RULE, {LABELS: EVEN, PREDICTIONS: 0.4 * EVEN}, [MISPREDICTED], id="probabilities below a half"),
    pytest.param(ARGMAX, {LABELS: EVEN, PREDICTIONS: ROWS_OF_SCORES}, ["mispredicted share of class 0"], id="scores"),
    pytest.param(RULE, {LABELS: UNEVEN, PREDICTIONS: ONE_SIDED}, [IMBALANCE, MISPREDICTED], id="both"),
    pytest.param(RULE, {LABELS: UNEVEN.astype(float)}, [IMBALANCE], id="labels of XGBoost are floating"),
]
SILENT = [
    pytest.param(RULE, {LABELS: EVEN}, [], id="as many of each"),
    pytest.param(RULE, {LABELS: np.array_split(UNEVEN[-499:], 6)}, [], id="fewer labels than asked for"),
    pytest.param(RULE, {"other_input": UNEVEN}, [], id="not called labels"),
    pytest.param(RULE, {LABELS: EVEN, PREDICTIONS: EVEN}, [], id="all right"),
    pytest.param(RULE, {LABELS: EVEN, PREDICTIONS: 0.6 * EVEN}, [], id="probabilities above a half"),
    pytest.param(RULE, {LABELS: EVEN, PREDICTIONS: ROWS_OF_SCORES}, [], id="scores without argmax"),
    pytest.param(RULE, {LABELS: EVEN, PREDICTIONS: ONE_SIDED[:10]}, [], id="predictions of another batch"),
    pytest.param(RULE, {LABELS: np.arange(600) / 7}, [], id="numbers to regress"),
]


@pytest.mark.parametrize(("rule", "tensors", "measures"), [*FIRES, *SILENT])
def test_rows(rule: DocumentedClassImbalance, tensors: dict[str, Any], measures: list[str]) -> None:
    assert fired(rule, tensors)[: max(1, len(measures))] == measures


def test_as_many_silent_as_firing_rows() -> None:
    assert len(FIRES) == len(SILENT)


def test_what_has_too_many_values_is_no_class_and_the_state_stays_small() -> None:
    assert fired(RULE, {LABELS: [np.arange(5000), np.zeros(5000, np.int64)]}) == []
    assert len(added({}, np.arange(5000))) == 1001


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=20), min_size=1, max_size=5))
def test_counts_do_not_depend_on_how_labels_are_batched(batches: list[list[int]]) -> None:
    seen = SeenClasses()
    for batch in batches:
        seen = seen.with_batch(np.array(batch), None)
    flat = [label for batch in batches for label in batch]
    assert seen.labels == {str(label): flat.count(label) for label in set(flat)}


@pytest.mark.parametrize(
    ("values", "is_class"),
    [
        pytest.param(np.array([[1], [2]]), True, id="a column"),
        pytest.param(np.array([True, False]), True, id="truth values"),
        pytest.param(np.array([1.0, np.nan]), False, id="NaN"),
        pytest.param(np.eye(3), False, id="rows"),
        pytest.param(np.array(["a"]), False, id="texts"),
        pytest.param(np.zeros(0), False, id="nothing"),
    ],
)
def test_what_are_classes(values: np.ndarray[Any, Any], is_class: bool) -> None:
    assert (as_whole_numbers(values) is not None) is is_class
