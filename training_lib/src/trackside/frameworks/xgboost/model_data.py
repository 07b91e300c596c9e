"""The data of a boosted model: settings, importances, trees, contributions; under the names of smdebug's hook."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xgboost.core import XGBoostError

from trackside.frameworks import rounds

IMPORTANCES = ("weight", "gain", "cover", "total_gain", "total_cover")

_MOST_ROWS = 512  # of the inputs that are saved
_MOST_NUMBERS = 1 << 20  # of a matrix that is read whole to pick rows out of it

_MANY_ROUNDS = 200  # to copy the new trees takes as long as to walk so many
_FEW_NEW = 1.2  # times the rounds before

Named = Iterator[tuple[str, NDArray[Any]]]

_SETTINGS = (
    "tree_train_param",
    "dart_train_param",
    "gblinear_train_param",
    "gbtree_train_param",
    "learner_train_param",
)


def hyperparameters(model: Any, given: Mapping[str, Any] | None) -> Named:
    """Return `hyperparameters/<name>`: those that the script gave, else all settings of the model."""
    return rounds.settings(given if given is not None else dict(_settings(json.loads(model.save_config()))))


class Importances:
    """The importances of features, round after round.

    XGBoost walks all trees for each kind, so few are requested, and of a long boosting the new trees alone.
    """

    def __init__(self) -> None:
        self._has_trees: bool | None = None
        self._only_adds = True
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}  # by the features that are used
        self._sums: dict[str, NDArray[np.float64]] = {}  # splits, gain and cover by feature, of the first `_rounds`
        self._rounds = 0

    def read(self, model: Any) -> rounds.Rows:
        """Return names, `feature_importance/<kind>/<feature>`, and values of shape (names, 1).

        The values of each kind have the sum 1. A linear model has none.
        """
        if self._has_trees is None:
            self._has_trees = _has_trees(model)
            self._only_adds = self._has_trees and _only_adds_trees(model)
        if self._has_trees:
            self._add(model)
        features = tuple(self._sums)
        if not features:
            return rounds.Rows((), np.zeros((0, 1)))
        weight, total_gain, total_cover = np.array(list(self._sums.values())).T
        kinds = np.array([weight, total_gain / weight, total_cover / weight, total_gain, total_cover])
        totals = kinds.sum(axis=1, keepdims=True)
        shares = np.divide(kinds, totals, out=np.zeros_like(kinds), where=totals != 0)
        names = self._names.get(features)
        if names is None:
            found = [f"feature_importance/{kind}/{feature}" for kind in IMPORTANCES for feature in features]
            names = self._names[features] = tuple(found)
        return rounds.Rows(names, shares.reshape(-1, 1))

    def _add(self, model: Any) -> None:
        """Add the trees since the last call, or read all where these are few."""
        before, now = self._rounds, model.num_boosted_rounds()
        self._rounds = now
        if not (self._only_adds and now >= _MANY_ROUNDS and before < now < before * _FEW_NEW):
            self._sums, before = {}, 0
        part = model[before:now] if before else model
        splits, gains, covers = (
            part.get_score(importance_type=kind) for kind in ("weight", "total_gain", "total_cover")
        )
        for feature, count in splits.items():
            found = np.array([count, gains[feature], covers[feature]], np.float64)
            self._sums[feature] = self._sums.get(feature, 0.0) + found


def trees(model: Any, number: int) -> Named:
    """Yield `trees/<column>` of the trees of one round, their nodes in order. A linear model has none.

    Args:
        model: The booster.
        number: The round.
    """
    if not _has_trees(model):
        return
    dumps = model[number : number + 1].get_dump(dump_format="json", with_stats=True)
    first = number * len(dumps)
    rows = [row for k, dump in enumerate(dumps) for row in sorted(_nodes(first + k, json.loads(dump)))]
    columns = zip(*rows, strict=True)
    names = ("Tree", "Node", "Feature", "Split", "Yes", "No", "Missing", "Gain", "Cover", "Category")
    found: dict[str, Any] = dict(zip(names, columns, strict=True))
    found["ID"] = [f"{tree}-{node}" for tree, node in zip(found["Tree"], found["Node"], strict=True)]
    for name in ("Tree", "Node", "ID", *names[2:]):
        kind = {"Tree": np.int64, "Node": np.int64, "Split": np.float64, "Gain": np.float64, "Cover": np.float64}.get(
            name
        )
        yield f"trees/{name}", np.array(found[name], kind) if kind else np.array(found[name], np.str_)


def contributions(model: Any, data: Any) -> NDArray[Any]:
    """Return the SHAP values, of shape (samples, features + 1), or (samples, classes, features + 1)."""
    return np.asarray(model.predict(data, pred_contribs=True))


def average_contributions(model: Any, values: NDArray[Any]) -> Named:
    """Yield `average_shap/<feature>`, and `average_shap/bias`: the mean over samples and classes."""
    means = values.mean(axis=tuple(range(values.ndim - 1)))
    for name, mean in zip(feature_names(model), means, strict=True):
        yield f"average_shap/{name}", np.array([mean])


def full_contributions(model: Any, values: NDArray[Any]) -> Named:
    """Yield `full_shap/<feature>`: as in the original, each holds the values of all features."""
    for name in feature_names(model):
        yield f"full_shap/{name}", values


def feature_names(model: Any) -> Sequence[str]:
    """Return the names of the features, and "bias"."""
    names = model.feature_names or [f"f{k}" for k in range(model.num_features())]
    return [*names, "bias"]


def sample(data: Any, rows: int) -> Any:
    """Return the data, or rows of it that lie evenly apart."""
    count = data.num_row()
    if count <= rows:
        return data
    return data.slice(_evenly(count, rows).tolist())


def rows(data: Any) -> Named:
    """Yield `inputs`, shape (samples, features), and `inputs/labels`, of rows that lie evenly apart.

    A missing number is 0. Nothing of a large matrix that XGBoost does not pick rows out of.
    """
    chosen = _evenly(data.num_row(), _MOST_ROWS)
    try:
        found = data.slice(chosen.tolist()).get_data()
    except XGBoostError:  # with quantiles, or in external memory
        if data.num_nonmissing() > _MOST_NUMBERS:
            return
        found = data.get_data()[chosen]
    yield "inputs", found.toarray()
    answers = data.get_label()
    if len(answers) == data.num_row():
        yield "inputs/labels", answers[chosen]


def _evenly(count: int, most: int) -> NDArray[np.int64]:
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


def _has_trees(model: Any) -> bool:
    return getattr(model, "booster", "gbtree") in {None, "gbtree", "dart"} and _booster_of(model) != "gblinear"


def _only_adds_trees(model: Any) -> bool:
    """Return False where a round may change trees of earlier rounds."""
    settings = dict(_settings(json.loads(model.save_config())))
    return settings.get("process_type", "default") == "default" and _booster_of(model) != "dart"


def _booster_of(model: Any) -> str:
    name = json.loads(model.save_config())["learner"]["gradient_booster"].get("name", "")
    return str(name)


def _settings(config: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(config, dict):
        for key, inner in config.items():
            if key in _SETTINGS and isinstance(inner, dict):
                yield from ((name, value) for name, value in inner.items() if not isinstance(value, (dict, list)))
            else:
                yield from _settings(inner)


def _nodes(tree: int, node: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield (tree, node, feature, split, yes, no, missing, gain, cover, category) of a node and all below it."""
    number = node["nodeid"]
    if "leaf" in node:
        nothing = float("nan")
        yield tree, number, "Leaf", nothing, "nan", "nan", "nan", node["leaf"], node.get("cover", nothing), "nan"
        return
    condition = node.get("split_condition")
    is_category = isinstance(condition, list)
    yes, no, missing = (f"{tree}-{node[key]}" if key in node else "nan" for key in ("yes", "no", "missing"))
    split = float("nan") if is_category or condition is None else float(condition)
    category = ",".join(map(str, condition)) if isinstance(condition, list) else "nan"
    stats = node.get("gain", float("nan")), node.get("cover", float("nan"))
    yield tree, number, node["split"], split, yes, no, missing, *stats, category
    for child in node.get("children", ()):
        yield from _nodes(tree, child)
