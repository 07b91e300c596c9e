"""The first rounds of XGBoost: trees without a split, and early stopping by the rows that are trained on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost

import trackside
from trackside.contracts.run.recorded_names import (
    EVALUATED_ROWS_TRAINED_ON,
    LEAST_WEIGHT_OF_SPLIT,
    SECOND_DERIVATIVES_POSITIVE,
    UNSPLIT_TREES,
)

random = np.random.default_rng(0)
INPUTS, OTHERS = random.normal(size=(200, 4)), random.normal(size=(200, 4))
LABELS, OTHER_LABELS = ((each[:, 0] > 0).astype(int) for each in (INPUTS, OTHERS))
BINARY = {"objective": "binary:logistic", "nthread": 1}


def recorded(run: Path, name: str) -> list[float]:
    trial = trackside.open_trial(str(run))
    return [
        float(value)
        for mode in ("TRAIN", "EVAL")
        for column in trial.columns(name, "mean", last_step=10_000, mode=mode)
        for value in column.values
    ]


def boost(run: Path, settings: Mapping[str, Any] = BINARY, **arguments: Any) -> None:
    with trackside.XGBoostHook(str(run)) as hook:
        data = arguments.pop("data", xgboost.DMatrix(INPUTS, label=LABELS))
        xgboost.train({**BINARY, **settings}, data, 6, callbacks=[hook], verbose_eval=False, **arguments)


@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        ({}, [0.0] * 3),
        ({"gamma": 1e6}, [1.0] * 3),
        ({"min_child_weight": 1000}, [1.0] * 3),
        ({"num_parallel_tree": 4, "subsample": 0.5}, [0.0] * 3),
        ({"booster": "gblinear"}, []),
    ],
)
def test_trees_without_a_split(settings: Mapping[str, Any], shares: list[float], tmp_path: Path) -> None:
    boost(tmp_path, settings)
    assert recorded(tmp_path, UNSPLIT_TREES) == shares
    needed = recorded(tmp_path, LEAST_WEIGHT_OF_SPLIT)
    assert needed == (
        [] if 1.0 not in shares else pytest.approx([2 * settings.get("min_child_weight", 1) / 50] * 3, rel=0.05)
    )


def matrices(*pairs: tuple[Any, Any]) -> list[xgboost.DMatrix]:
    return [xgboost.DMatrix(inputs, label=labels) for inputs, labels in pairs]


@pytest.mark.parametrize(
    ("names", "stops", "shares"),
    [
        pytest.param(("test", "train"), {"early_stopping_rounds": 5}, [1.0] * 3, id="the-training-set-comes-last"),
        pytest.param(("again",), {"early_stopping_rounds": 5}, [1.0] * 3, id="another-matrix-of-it"),
        pytest.param(("train", "test"), {"early_stopping_rounds": 5}, [0.0] * 3, id="held-back"),
        pytest.param(("train",), {}, [], id="nothing-stops"),
    ],
)
def test_rows_that_stop(names: tuple[str, ...], stops: Mapping[str, Any], shares: list[float], tmp_path: Path) -> None:
    train, test, again = matrices((INPUTS, LABELS), (OTHERS, OTHER_LABELS), (INPUTS.copy(), LABELS))
    sets = {"train": train, "test": test, "again": again}
    boost(tmp_path, data=train, evals=[(sets[name], name) for name in names], **stops)
    assert recorded(tmp_path, EVALUATED_ROWS_TRAINED_ON) == shares


def test_an_estimator_that_stops_by_its_own_rows(tmp_path: Path) -> None:
    with trackside.XGBoostHook(str(tmp_path)) as hook:
        model = xgboost.XGBClassifier(n_estimators=6, early_stopping_rounds=3, n_jobs=1, callbacks=[hook])
        model.fit(INPUTS, LABELS, eval_set=[(INPUTS, LABELS)], verbose=False)
    assert recorded(tmp_path, EVALUATED_ROWS_TRAINED_ON) == [1.0] * 3


def test_no_labels_that_are_equal_are_rows_that_are(tmp_path: Path) -> None:
    labels = np.repeat([0, 1], 100)
    train, test = matrices((INPUTS, labels), (OTHERS, labels))
    boost(tmp_path, data=train, evals=[(test, "test")], early_stopping_rounds=5)
    assert recorded(tmp_path, EVALUATED_ROWS_TRAINED_ON) == [0.0] * 3


def logistic(predictions: Any, data: xgboost.DMatrix) -> tuple[Any, Any]:
    shares = 1 / (1 + np.exp(-predictions))
    return shares - data.get_label(), shares * (1 - shares)


def test_an_objective_of_the_script(tmp_path: Path) -> None:
    data = xgboost.DMatrix(INPUTS, label=LABELS)
    boost(tmp_path, {"objective": None}, data=data, obj=logistic, evals=[(data, "train")])
    assert recorded(tmp_path, SECOND_DERIVATIVES_POSITIVE) == [1.0] * 6
    assert recorded(tmp_path, "rmse_loss_output_0") == []  # it is of what logistic makes into shares


def test_xgboost_is_as_it_was(tmp_path: Path) -> None:
    before = xgboost.Booster.update
    with trackside.XGBoostHook(str(tmp_path)) as hook:
        xgboost.train(BINARY, xgboost.DMatrix(INPUTS, label=LABELS), 2, callbacks=[hook])
    assert xgboost.Booster.update is before or xgboost.Booster.update.__wrapped__ is before
