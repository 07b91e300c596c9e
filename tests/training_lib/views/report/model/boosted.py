"""Trainings of XGBoost, one for each family of objectives, captured by our hook."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

import trackside

Numbers = NDArray[Any]

NAMES = ["age", "income of the household", "<b>hours</b>", "f3", "été"]
SAVE = {"metrics": 1, "labels": 2, "predictions": 2, "feature_importance": 2, "hyperparameters": 100}
OBJECTIVES: Mapping[str, Mapping[str, Any]] = {
    "binary:logistic": {"eval_metric": ["logloss", "auc", "error"]},
    "binary:logitraw": {},
    "binary:hinge": {},
    "multi:softprob": {"num_class": 4, "eval_metric": ["mlogloss", "merror"]},
    "multi:softmax": {"num_class": 4},
    "reg:squarederror": {"eval_metric": ["rmse", "mae", "mphe"]},
    "reg:logistic": {},
    "reg:gamma": {},
    "reg:tweedie": {},
    "reg:absoluteerror": {},
    "count:poisson": {},
    "rank:ndcg": {"eval_metric": ["ndcg@5", "ndcg@5-"]},
    "survival:cox": {},
    "survival:aft": {},
}


def boost(
    folder: Path,
    objective: str,
    *,
    rows: int = 400,
    rounds: int = 20,
    also: Mapping[str, int] | None = None,
    **settings: Any,
) -> xgboost.Booster:
    """Train and capture, and return the model. `also`: further collections, and the interval of each."""
    training, validation = (_data(objective, rows, seed) for seed in (0, 1))
    hook = trackside.XGBoostHook(str(folder), save={**SAVE, **(also or {})})
    chosen = {
        "objective": objective,
        "nthread": 1,
        "max_depth": 4,
        "seed": 7,
        **OBJECTIVES.get(objective, {}),
        **settings,
    }
    model = xgboost.train(
        chosen,
        training,
        num_boost_round=rounds,
        evals=[(training, "train"), (validation, "validation")],
        callbacks=[hook],
        verbose_eval=False,
    )
    hook.close()
    return model


def validation_of(objective: str, rows: int = 400) -> xgboost.DMatrix:
    """Return the rows of which labels and predictions are saved."""
    return _data(objective, rows, 1)


def training_of(objective: str, rows: int = 400) -> xgboost.DMatrix:
    """Return the rows of which SHAP values are saved."""
    return _data(objective, rows, 0)


def _data(objective: str, rows: int, seed: int) -> xgboost.DMatrix:
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(rows, 5))
    score = inputs[:, 0] + 0.5 * inputs[:, 1] ** 2 + random.normal(scale=0.5, size=rows)
    found = xgboost.DMatrix(inputs, _labels(objective, score), feature_names=_plain_names())
    if objective.startswith("rank:"):
        found.set_group([20] * (rows // 20))
    if objective == "survival:aft":
        times = np.exp(score)
        found.set_float_info("label_lower_bound", times)
        found.set_float_info("label_upper_bound", np.where(score > 1, np.inf, times))
    return found


def _plain_names() -> list[str]:
    return [name.replace("<", "(").replace(">", ")") for name in NAMES]  # XGBoost refuses < and >


def _labels(objective: str, score: Numbers) -> Numbers | None:
    if objective == "survival:aft":
        return None  # it has bounds
    family = objective.partition(":")[0]
    found: dict[str, Numbers] = {
        "binary": np.asarray(score > 0.4),
        "multi": np.digitize(score, [-0.5, 0.3, 1.6]),
        "count": np.floor(np.exp(score / 2)),
        "rank": np.digitize(score, [0, 1, 2]),
        "survival": np.where(score > 1, -1, 1) * np.exp(score),
        "reg:logistic": 1 / (1 + np.exp(-score)),
        "reg:gamma": np.exp(score),
        "reg:tweedie": np.exp(score),
    }
    return found.get(objective, found.get(family, score)).astype(np.float64)
