"""The metrics of a round: their names, the one that is the loss, and the set that is trained on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trackside.adapters.shared.rounds import Metric

# Metrics of XGBoost that fall while a model learns, smooth ones first. What follows an @ is a parameter.
_SMOOTH = (
    "logloss", "mlogloss", "rmse", "rmsle", "mae", "mape", "mphe", "quantile", "expectile", "poisson-nloglik",
    "gamma-nloglik", "gamma-deviance", "cox-nloglik", "tweedie-nloglik", "aft-nloglik",
)  # fmt: skip
_STEPPED = ("error", "merror")
DEFAULT_METRIC = "rmse"  # of a model without an objective of XGBoost's
RISING_METRICS = "^[a-zA-z]+-(auc|map)$"  # those that smdebug's hook does not take for losses, as it is spelt there
# PyTorch's name of the same loss, where there is one.
CLASS_METRICS = frozenset({"logloss", "mlogloss", "error", "merror"})
SAME_LOSS = {"logloss": "BCELoss", "mlogloss": "NLLLoss", "mae": "L1Loss"}


Value = tuple[str, str, Any]  # set, metric, and the newest value as XGBoost has it


def newest(history: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[Value]:
    """Return the newest value of each metric in XGBoost's log of evaluations."""
    return [(of_set, name, own[-1]) for of_set, metrics in history.items() for name, own in metrics.items() if own]


def metrics_of(values: Sequence[Value]) -> list[Metric]:
    """Return the metrics of a round, of the newest values at its end."""
    return [Metric(of_set, name, _number(value)) for of_set, name, value in values]


def loss_among(names: Iterable[str]) -> str:
    """Return the metric that stands for the loss: the first smooth one, else an error rate; "" without any."""
    found = list(names)
    for is_loss in (_is_smooth, lambda name: name in _STEPPED):
        for name in found:
            if is_loss(name):
                return name
    return ""


def is_loss_of_smdebug(tensor_name: str) -> bool:
    """Return True if smdebug's hook saves this metric as a loss: any but two that rise, of a set named by letters."""
    return re.match(RISING_METRICS, tensor_name) is None


def training_set(sets: Sequence[tuple[Any, str]], training: Any, *, names: Iterable[str]) -> str:
    """Return the name of the set that is trained on; "" if that one is not evaluated.

    Args:
        sets: The evaluated data sets with their names.
        training: The data that is trained on.
        names: The names in the log of evaluations, for a `cv`, which has no sets.
    """
    if sets:
        return next((name for data, name in sets if data is training), "")
    return next((name for name in names if name.lower().startswith("train")), "")


def _is_smooth(name: str) -> bool:
    return name.partition("@")[0] in _SMOOTH or name.lower().endswith("loss")


def _number(value: Any) -> float:
    return float(value[0] if isinstance(value, tuple) else value)
