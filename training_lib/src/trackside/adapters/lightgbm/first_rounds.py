"""Numbers of the first rounds of a boosting: trees without a split, and the rows that end it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightgbm
import numpy as np

from trackside.contracts.run.recorded_names import (
    EVALUATED_ROWS_TRAINED_ON,
    LEAST_WEIGHT_OF_SPLIT,
    UNSPLIT_TREES,
)

LOOKS = 3  # rounds
_COMPARED = 32  # rows
_STOPS = ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change")
_LEAST_ROWS = "[min_data_in_leaf: "


def numbers_of(round_: Any, stopped: float | None) -> Mapping[str, float]:
    """Return the numbers of one of the first rounds by their recorded names; none later, and none of a `cv`.

    Args:
        round_: The environment of a callback.
        stopped: See `stopped_by`.
    """
    number = round_.iteration - round_.begin_iteration
    if number >= LOOKS or not isinstance(round_.model, lightgbm.Booster):
        return {}
    found = {} if stopped is None else {EVALUATED_ROWS_TRAINED_ON: stopped}
    return {**found, **_splits(round_.model, round_.iteration)}


def _splits(model: lightgbm.Booster, number: int) -> Mapping[str, float]:
    """Return the share of trees without a split, and the least weight of a split over that of all rows."""
    trees = model.dump_model(num_iteration=1, start_iteration=number)["tree_info"]
    share = sum(tree["num_leaves"] <= 1 for tree in trees) / len(trees) if trees else 1.0  # none: it was taken back
    if share < 1:
        return {UNSPLIT_TREES: share}
    found, rows = {UNSPLIT_TREES: share}, getattr(model, "train_set", None)
    _, is_named, rest = model.model_to_string(num_iteration=1).partition(_LEAST_ROWS)
    if is_named and rows is not None and rows.num_data():
        found[LEAST_WEIGHT_OF_SPLIT] = 2 * float(rest.partition("]")[0]) / rows.num_data()
    return found


def stopped_by(arguments: Mapping[str, Any]) -> float | None:
    """Return 1 if each set that may end the boosting is the training set, 0 if another one is; None if none may.

    Args:
        arguments: Those of a call of `lightgbm.train`, before data are given up.
    """
    settings, callbacks = arguments.get("params") or {}, arguments.get("callbacks") or ()
    may_stop = any(settings.get(name) for name in _STOPS) or any(
        type(each).__name__ == "_EarlyStoppingCallback" for each in callbacks
    )
    sets, training = arguments.get("valid_sets"), arguments.get("train_set")
    sets = [sets] if isinstance(sets, lightgbm.Dataset) else list(sets or ())
    if not may_stop or not sets or training is None:
        return None
    return float(all(_is_same(each, training) for each in sets))


def _is_same(data: Any, training: Any) -> bool:
    """Return True for the training set, and for arrays with its rows in their order."""
    if data is training:
        return True
    own, other = data.data, training.data
    if own is None or other is None:
        return False
    if own is other:
        return data.label is training.label or np.array_equal(np.asarray(data.label), np.asarray(training.label))
    if not (isinstance(own, np.ndarray) and isinstance(other, np.ndarray) and own.shape == other.shape):
        return False
    rows = np.linspace(0, len(own) - 1, min(len(own), _COMPARED)).astype(np.int64)
    return np.array_equal(own[rows], other[rows], equal_nan=own.dtype.kind == "f" and other.dtype.kind == "f")
