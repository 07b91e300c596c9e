"""Class labels, batch by batch: what counts as a class, and what is remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.situation.constants import MOST_BATCHES, MOST_CLASSES
from trackside.situation.labels import SeenLabels, as_classes, with_labels_of
from trackside.testing.rule_case import RuleCase

Y = "CrossEntropyLoss_input_1"


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        pytest.param(np.array([3, 1, 2]), [3, 1, 2], id="whole-numbers"),
        pytest.param(np.array([[3], [1]]), [3, 1], id="a-column"),
        pytest.param(np.array([True, False]), [1, 0], id="truth-values"),
        pytest.param(np.array([0.0, 1.0, 1.0]), [0, 1, 1], id="zeros-and-ones"),
        pytest.param(np.eye(3)[[2, 0]], [2, 0], id="one-hot"),
        pytest.param(np.array([0.5, 1.0]), None, id="probabilities"),
        pytest.param(np.array([2.0, 1.0]), None, id="numbers"),
        pytest.param(np.array([[1, 1, 0], [0, 1, 0]]), None, id="several-labels-each"),
        pytest.param(np.array([[0.2, 0.8]]), None, id="soft-labels"),
        pytest.param(np.zeros((2, 3, 4), np.int64), None, id="an-image-of-classes"),
        pytest.param(np.zeros(0, np.int64), None, id="nothing"),
    ],
)
def test_what_are_classes(labels: Any, classes: list[int] | None) -> None:
    found = as_classes(labels)
    assert (None if found is None else found.tolist()) == classes


batches = st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=12), max_size=15)


@given(batches=batches)
def test_every_label_is_counted_once(batches: list[list[int]]) -> None:
    seen = SeenLabels()
    for step, batch in enumerate(batches):
        seen = seen.with_batch(step, np.array(batch))
    everything = [one for batch in batches for one in batch]
    assert seen.counts == {str(one): everything.count(one) for one in set(everything)}
    assert seen.samples == len(everything)
    assert [step for step, *_ in seen.batches] == [*range(len(batches))]
    assert all(0 < share <= 1 for _, share, _ in seen.batches)


def test_memory_is_bounded() -> None:
    seen = SeenLabels()
    for step in range(MOST_BATCHES + 50):
        seen = seen.with_batch(step, np.array([0, 1, 0, 1]))
    assert len(seen.batches) == MOST_BATCHES
    assert seen.batches[-1][0] == MOST_BATCHES + 49


def test_more_classes_than_classes_have_are_no_classes_for_good() -> None:
    seen = SeenLabels().with_batch(0, np.arange(MOST_CLASSES + 1))
    assert not seen.is_classes
    window = RuleCase("labels", {Y: {0: np.zeros(8, np.int64)}}, collections={"labels": (Y,)}).window
    assert with_labels_of(seen, window) == seen


def test_the_labels_of_all_workers_count() -> None:
    both = {"worker_0": np.array([0, 0, 0, 0]), "worker_1": np.array([1, 1, 1, 1])}
    window = RuleCase("two workers", {Y: {0: both}}, collections={"labels": (Y,)}).window
    assert with_labels_of(SeenLabels(), window).counts == {"0": 4, "1": 4}
