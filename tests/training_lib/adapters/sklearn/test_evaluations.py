"""Evaluations of an estimator, against rows and labels that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor

from trackside.adapters.sklearn.evaluations import Evaluations
from trackside.contracts.run.recorded_names import EVALUATED_ROWS_TRAINED_ON, HELD_OUT_SCORE, RAN_OUT

RANDOM = np.random.default_rng(0)
ROWS, OTHERS = RANDOM.normal(size=(600, 8)), RANDOM.normal(size=(400, 8))
LABELS = (OTHERS[:, 0] > 0).astype(int)
RARE = (OTHERS[:, 0] > 1.6).astype(int)
MIXED = RANDOM.permutation(LABELS)
GOOD_BUT_RARE = RARE | (OTHERS[:, 0] > 1.0).astype(int)  # right less often than "never", and of use

Act = Callable[[Evaluations], object]


def evaluated(*acts: Act, rows: Any = ROWS, ran_out: int = 0, estimator: Any = None) -> dict[str, float]:
    """Return the numbers that are recorded, by name."""
    evaluations, estimator = Evaluations(), estimator or DummyClassifier()
    evaluations.train(estimator, rows, ran_out=ran_out)
    for act in acts:
        act(evaluations)
    return {name: value for (name, _), value in evaluations.numbers().items()}


def scored(rows: Any, labels: Any = LABELS, predictions: Any = LABELS, score: float = 0.9, *, by: bool = False) -> Act:
    """Return a score of rows, of which the predictions are known."""

    def act(evaluations: Evaluations) -> None:
        with evaluations.scoring():
            evaluations.predict(rows, predictions)
        evaluations.score(rows, labels, score, is_weighted=by)

    return act


def predicted(rows: Any) -> Act:
    """Return a prediction without a score."""
    return lambda evaluations: evaluations.predict(rows, None)


@pytest.mark.parametrize(
    ("acts", "share"),
    [
        pytest.param((scored(ROWS[:400]),), 1.0, id="all"),
        pytest.param((scored(ROWS[:50]), predicted(ROWS[:90])), 1.0, id="and-a-prediction"),
        pytest.param((scored(np.r_[ROWS[:100], OTHERS[:100]]),), 0.5, id="half"),
        pytest.param((scored(ROWS[:400].tolist()),), 1.0, id="lists"),
        pytest.param((scored(OTHERS),), 0.0, id="held-out"),
        pytest.param((scored(ROWS[:400]), scored(OTHERS)), 0.0, id="both"),
        pytest.param((scored(ROWS[:400]), predicted(OTHERS)), 0.0, id="others-are-predicted"),
        pytest.param((predicted(ROWS),), None, id="prediction-alone"),
        pytest.param((scored(ROWS[:31]),), None, id="too-few"),
        pytest.param((), None, id="nothing"),
    ],
)
def test_the_share_of_rows_that_were_trained_on(acts: tuple[Act, ...], share: float | None) -> None:
    assert evaluated(*acts).get(EVALUATED_ROWS_TRAINED_ON) == share


@pytest.mark.parametrize("rows", [ROWS[:, :7], np.repeat(ROWS[:300], 2, axis=0)], ids=["narrow", "often-equal"])
def test_rows_that_are_equal_by_nature_are_not_looked_up(rows: Any) -> None:
    assert evaluated(scored(rows[:400]), rows=rows) == {}


def test_a_wide_table_is_looked_up_by_some_of_its_columns() -> None:
    wide = RANDOM.normal(size=(50, 5000))
    assert evaluated(scored(wide), rows=wide)[EVALUATED_ROWS_TRAINED_ON] == 1.0


@pytest.mark.parametrize(
    ("act", "is_noted"),
    [
        pytest.param(scored(OTHERS, LABELS, MIXED, 0.5), True, id="mixed"),
        pytest.param(scored(OTHERS, LABELS, np.zeros(400, int), 0.5), True, id="constant"),
        pytest.param(scored(OTHERS, LABELS, np.where(OTHERS[:, 1] > -1, LABELS, MIXED)), False, id="mostly-right"),
        pytest.param(scored(OTHERS, RARE, GOOD_BUT_RARE, 0.88), False, id="rare-class-that-is-found"),
        pytest.param(scored(OTHERS, RARE, RARE * 0, 0.94), True, id="rare-class-that-is-not"),
        pytest.param(scored(ROWS[:400], LABELS, MIXED, 0.5), False, id="trained-on"),
        pytest.param(scored(OTHERS, LABELS, MIXED, 0.5, by=True), False, id="weighted"),
        pytest.param(scored(OTHERS[:90], LABELS[:90], MIXED[:90], 0.5), False, id="few"),
    ],
)
def test_a_score_that_is_no_better_than_a_guess(act: Act, is_noted: bool) -> None:
    assert (HELD_OUT_SCORE in evaluated(act)) == is_noted
    assert HELD_OUT_SCORE not in evaluated(act, scored(OTHERS))  # one that is better is enough


@pytest.mark.parametrize(("score", "is_noted"), [(0.2, False), (-0.1, True)])
def test_the_score_of_numbers_says_it_itself(score: float, is_noted: bool) -> None:
    act = scored(OTHERS, OTHERS[:, 0], OTHERS[:, 1], score)
    assert (HELD_OUT_SCORE in evaluated(act, estimator=DummyRegressor())) == is_noted


def test_the_limit_of_steps() -> None:
    assert evaluated(ran_out=30) == {RAN_OUT: 30.0}
    assert evaluated() == {}
