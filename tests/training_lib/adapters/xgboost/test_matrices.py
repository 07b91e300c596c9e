"""Kinds of matrices: quantiles, external memory, batches. With all collections, and more rows than are explained."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost

import trackside
from tests.training_lib.frameworks.captured_script import curve, opened

ROUNDS = 6
KINDS = ("metrics", "losses", "hyperparameters", "feature_importance", "trees", "labels", "predictions")
SHAP = ("average_shap", "full_shap")


def data(rows: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(rows, 5))
    return inputs, (inputs[:, 0] + inputs[:, 1] ** 2 > 0.7).astype(int)


class Batches(xgboost.DataIter):
    """The rows in four parts."""

    def __init__(self, inputs: Any, labels: Any, **options: Any) -> None:
        self._parts = [(inputs[k::4], labels[k::4]) for k in range(4)]
        self._next = 0
        super().__init__(**options)

    def next(self, input_data: Any) -> bool:
        if self._next == len(self._parts):
            return False
        inputs, labels = self._parts[self._next]
        input_data(data=inputs, label=labels)
        self._next += 1
        return True

    def reset(self) -> None:
        self._next = 0


Make = Callable[[Any, Any, Path, Any], Any]
MATRICES: dict[str, Make] = {
    "plain": lambda a, b, folder, ref: xgboost.DMatrix(a, b),
    "quantiles": lambda a, b, folder, ref: xgboost.QuantileDMatrix(a, b, ref=ref),
    "quantiles-of-batches": lambda a, b, folder, ref: xgboost.QuantileDMatrix(Batches(a, b), ref=ref),
    "external-memory": lambda a, b, folder, ref: xgboost.DMatrix(Batches(a, b, cache_prefix=str(folder / "cache"))),
    "external-quantiles": lambda a, b, folder, ref: xgboost.ExtMemQuantileDMatrix(
        Batches(a, b, cache_prefix=str(folder / "cache")), ref=ref
    ),
}


def boost(kind: str, folder: Path, *callbacks: Any) -> tuple[bytes, dict[str, Any]]:
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
    training = MATRICES[kind](*data(1600, 0), folder / "a", None)
    validation = MATRICES[kind](*data(400, 1), folder / "b", training)
    log: dict[str, Any] = {}
    model = xgboost.train(
        {"nthread": 1, "max_depth": 3, "objective": "binary:logistic", "tree_method": "hist", "seed": 0},
        training,
        ROUNDS,
        evals=[(training, "train"), (validation, "validation")],
        evals_result=log,
        verbose_eval=False,
        callbacks=list(callbacks),
    )
    return bytes(model.save_raw("json")), log


@pytest.mark.parametrize("kind", MATRICES)
def test_each_kind_of_matrix_is_captured_whole(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bare, _ = boost(kind, tmp_path / "bare")
    with (
        caplog.at_level(logging.WARNING),
        trackside.XGBoostHook(str(tmp_path / "run"), save=dict.fromkeys((*KINDS, *SHAP), 1)) as hook,
    ):
        model, log = boost(kind, tmp_path / "captured", hook)
    assert model == bare
    logged = [r.getMessage() for r in caplog.records if r.getMessage().startswith("trackside: ")]
    assert [text.split(" are not")[0] for text in logged] == ["trackside: contributions (SHAP)"] * (kind != "plain")
    trial = opened(tmp_path / "run")
    assert trial.steps() == tuple(range(ROUNDS))
    for name, mode in (("train", "TRAIN"), ("validation", "EVAL")):
        assert curve(trial, "logloss", mode) == pytest.approx(log[name]["logloss"], rel=1e-6)
    worker, booster = trial.workers[0], xgboost.Booster(model_file=bytearray(model))
    for step in trial.steps():
        so_far = booster[: step + 1]
        labels = trial.value("labels", step=step, worker=worker)
        found = trial.value("predictions", step=step, worker=worker)
        inputs, expected = data(400, 1)
        order = (
            np.concatenate([np.arange(400)[k::4] for k in range(4)]) if "plain" != kind != "quantiles" else slice(400)
        )
        assert np.array_equal(labels, expected[order])
        assert np.allclose(found, so_far.predict(xgboost.DMatrix(inputs[order])), atol=1e-5)
        if kind == "plain":
            values = trial.value("full_shap/f0", step=step, worker=worker)
            assert len(values) == 1000
            margins = so_far.predict(xgboost.DMatrix(data(1600, 0)[0]), output_margin=True)
            assert set(np.round(values.sum(axis=1), 3)) <= set(np.round(margins, 3))


@pytest.mark.parametrize("kind", MATRICES)
def test_contributions_of_given_rows(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = xgboost.DMatrix(data(50, 3)[0])
    with (
        caplog.at_level(logging.WARNING),
        trackside.XGBoostHook(str(tmp_path / "run"), save={"full_shap": 1}, train_data=rows) as hook,
    ):
        model, _ = boost(kind, tmp_path / "captured", hook)
    assert not caplog.records
    trial = opened(tmp_path / "run")
    values = trial.value("full_shap/f0", step=ROUNDS - 1, worker=trial.workers[0])
    margins = xgboost.Booster(model_file=bytearray(model)).predict(rows, output_margin=True)
    assert np.allclose(values.sum(axis=1), margins, atol=1e-4)
