"""The data of a boosted model: settings, importances, trees, contributions; under the names of smdebug's hook."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xgboost.core import XGBoostError

from trackside.adapters.shared import rounds

_MOST_ROWS = 512  # of the inputs that are saved
_MOST_NUMBERS = 1 << 20  # of a matrix that is read whole to pick rows out of it

Named = Iterator[tuple[str, NDArray[Any]]]

_SETTINGS = (
    "tree_train_param",
    "dart_train_param",
    "gblinear_train_param",
    "gbtree_train_param",
    "learner_train_param",
    "reg_loss_param",  # scale_pos_weight
)


def hyperparameters(model: Any, given: Mapping[str, Any] | None) -> Named:
    """Return `hyperparameters/<name>`: those that the script gave, else all settings of the model."""
    return rounds.settings(given if given is not None else dict(settings_of(json.loads(model.save_config()))))


def trees(model: Any, number: int) -> Named:
    """Yield `trees/<column>` of the trees of one round, their nodes in order. A linear model has none.

    Args:
        model: The booster.
        number: The round.
    """
    if not has_trees(model):
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


def classes(data: Any) -> tuple[int, ...]:
    """Return the number of samples of each class in a data set; nothing of the several sets of a `cv`."""
    return rounds.classes_among(data.get_label()) if hasattr(data, "get_label") else ()


def _evenly(count: int, most: int) -> NDArray[np.int64]:
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


def has_trees(model: Any) -> bool:
    """Return False for a linear model."""
    return getattr(model, "booster", "gbtree") in {None, "gbtree", "dart"} and booster_of(model) != "gblinear"


def booster_of(model: Any) -> str:
    """Return the kind of the model: "gbtree", "dart" or "gblinear"."""
    name = json.loads(model.save_config())["learner"]["gradient_booster"].get("name", "")
    return str(name)


def settings_of(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the settings in a model's configuration."""
    if isinstance(config, dict):
        for key, inner in config.items():
            if key in _SETTINGS and isinstance(inner, dict):
                yield from ((name, value) for name, value in inner.items() if not isinstance(value, (dict, list)))
            else:
                yield from settings_of(inner)


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
