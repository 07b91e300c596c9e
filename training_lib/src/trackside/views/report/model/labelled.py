"""The saved data about a model: labels, predictions, metrics of its data sets, importance of features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import TracksideError
from trackside.rules.models.confusion import as_classes
from trackside.trial.trial import Trial

MOST_STEPS = 30  # with labels and predictions, of which a curve over rounds is made
MOST_CLASSES = 1000
AVERAGE_SHAP = "average_shap"  # a collection, and a kind of importance: a mean with a sign, and no share
_FEWEST_LABELS = 2

_METRICS_WITH_DASH = (
    "poisson-nloglik", "gamma-nloglik", "gamma-deviance", "cox-nloglik", "tweedie-nloglik", "aft-nloglik",
    "interval-regression-accuracy",
)  # fmt: skip

Numbers = NDArray[np.float64]


class Family(Enum):
    """The kinds of questions that a model answers."""

    BINARY = "two classes"
    CLASSES = "several classes"
    NUMBERS = "numbers"
    RANKING = "ranking"
    SURVIVAL = "survival"


_FAMILIES = {
    "binary:": Family.BINARY,
    "multi:": Family.CLASSES,
    "reg:": Family.NUMBERS,
    "count:": Family.NUMBERS,
    "rank:": Family.RANKING,
    "survival:": Family.SURVIVAL,
}


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labels and predictions of one step.

    labels       float64 of shape (n,)
    predictions  float64 of shape (n,), or (n, classes)
    """

    step: int
    labels: Numbers
    predictions: Numbers


@dataclass(frozen=True, eq=False)
class LabelledRun:
    """The saved data of a run about its model.

    objective    as XGBoost names it; "" if it was not saved
    family       the kind of question
    is_guessed   True if the family comes from the shape of labels and predictions, since the objective is not known
    saved        labels and predictions, oldest first, at most `MOST_STEPS` of the steps
    metrics      steps and values by metric and data set
    importance   score at the first and the last step by kind and feature
    """

    objective: str
    family: Family
    is_guessed: bool
    saved: tuple[Labelled, ...]
    metrics: Mapping[str, Mapping[str, tuple[NDArray[np.int64], Numbers]]]
    importance: Mapping[str, Mapping[str, tuple[float, float]]]


def labelled_run(trial: Trial) -> LabelledRun | None:
    """Return what a run saved about its model; None if it saved neither predictions nor importance nor metrics.

    Raises:
        StorageError: The store cannot be read.
    """
    saved = tuple(_saved(trial))
    metrics, importance = dict(_metrics(trial)), _importance(trial)
    if not (saved or metrics or importance):
        return None
    objective = _objective(trial)
    family = next((kind for prefix, kind in _FAMILIES.items() if objective.startswith(prefix)), None)
    guessed = family is None
    return LabelledRun(objective, family or _guessed(saved), guessed, saved, metrics, importance)


def _saved(trial: Trial) -> Iterator[Labelled]:
    names = trial.names
    if "labels" not in names or "predictions" not in names:
        return
    labels, predictions = trial.tensor("labels"), trial.tensor("predictions")
    steps = sorted({*labels.steps} & {*predictions.steps})
    worker = min(labels.workers, default="")
    for place in np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MOST_STEPS)).astype(int)) if steps else ():
        step = steps[place]
        try:
            known, predicted = (trial.value(name, step=step, worker=worker) for name in ("labels", "predictions"))
        except TracksideError:  # a damaged step is left out, and stands among the damaged files
            continue
        if known.dtype.kind in "iubf" and predicted.dtype.kind in "iubf":
            found = _together(step, known.astype(np.float64), predicted.astype(np.float64))
            if found is not None:
                yield found


def _together(step: int, labels: Numbers, predictions: Numbers) -> Labelled | None:
    """Return both if they belong together: finite labels, and a prediction or a row of them for each."""
    labels = labels.reshape(-1)
    if predictions.ndim == 2 and predictions.shape[1] == 1:
        predictions = predictions[:, 0]
    is_fitting = predictions.ndim in {1, 2} and len(predictions) == len(labels) >= _FEWEST_LABELS
    is_finite = is_fitting and bool(np.isfinite(labels).all() and np.isfinite(predictions).all())
    return Labelled(step, labels, predictions) if is_finite else None


def _metrics(trial: Trial) -> Iterator[tuple[str, dict[str, tuple[NDArray[np.int64], Numbers]]]]:
    found: dict[str, dict[str, tuple[NDArray[np.int64], Numbers]]] = {}
    for name in trial.tensor_names(collection="metrics"):
        of_set, metric = _parts_of(name)
        columns = trial.columns(name, "mean", last_step=trial.recorded_through, mode=None)
        if columns and metric:
            found.setdefault(metric, {})[of_set or "all"] = (columns[0].steps, columns[0].values)
    yield from sorted(found.items())


def _parts_of(name: str) -> tuple[str, str]:
    """Return the data set and the metric of `validation-ndcg@10-` or `train-poisson-nloglik`."""
    before, mark, parameter = name.partition("@")
    metric = next((known for known in _METRICS_WITH_DASH if before.endswith(f"-{known}")), before.rpartition("-")[2])
    of_set = before.removesuffix(metric).removesuffix("-")
    return of_set, f"{metric}{mark}{parameter}"


def _importance(trial: Trial) -> dict[str, dict[str, tuple[float, float]]]:
    found: dict[str, dict[str, tuple[float, float]]] = {}
    last = trial.recorded_through
    for name in trial.tensor_names(collection="feature_importance"):
        _, _, kind_and_feature = name.partition("/")
        kind, _, feature = kind_and_feature.partition("/")
        columns = trial.columns(name, "mean", last_step=last, mode=None)
        if columns and feature:
            values = columns[0].values
            found.setdefault(kind, {})[feature] = (float(values[0]), float(values[-1]))
    for name in trial.tensor_names(collection=AVERAGE_SHAP):
        feature = name.partition("/")[2]
        columns = trial.columns(name, "mean", last_step=last, mode=None)
        if columns and feature not in {"", "bias"}:
            values = columns[0].values
            found.setdefault(AVERAGE_SHAP, {})[feature] = (float(values[0]), float(values[-1]))
    return found


def _objective(trial: Trial) -> str:
    name = "hyperparameters/objective"
    try:
        value = trial.tensor(name).value() if name in trial.names else ""
    except TracksideError:
        return ""
    return str(np.asarray(value).reshape(-1)[0]) if np.size(value) else ""


def _guessed(saved: tuple[Labelled, ...]) -> Family:
    if not saved:
        return Family.NUMBERS
    labels, predictions = saved[-1].labels, saved[-1].predictions
    classes = as_classes(labels) if bool((labels == np.floor(labels)).all()) and labels.min() >= 0 else None
    if classes is None or int(classes.max()) >= MOST_CLASSES:
        return Family.NUMBERS
    if predictions.ndim == 2:
        return Family.CLASSES
    is_share = bool(((predictions >= 0) & (predictions <= 1)).all())
    return Family.BINARY if is_share and int(classes.max()) <= 1 else Family.NUMBERS
