"""Numbers of the first rounds of a boosting: trees without a split, and the rows that end it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xgboost
from xgboost.callback import EarlyStopping

from trackside.adapters.xgboost.model_data import has_trees, settings_of
from trackside.adapters.xgboost.rounds import Round
from trackside.contracts.run.recorded_names import (
    EVALUATED_ROWS_TRAINED_ON,
    LEAST_WEIGHT_OF_SPLIT,
    UNSPLIT_TREES,
)

LOOKS = 3  # rounds
_COMPARED = 32  # rows


def numbers_of(ended: Round) -> Mapping[str, float]:
    """Return the numbers of one of the first rounds by their recorded names; none later, and none of a `cv`."""
    if ended.number >= LOOKS or ended.boosting.is_cv:
        return {}
    return {**_splits(ended.model), **_stopped_by(ended)}


def _splits(model: Any) -> Mapping[str, float]:
    """Return the share of trees without a split, and the least weight of a split over that of all rows."""
    if not has_trees(model):
        return {}
    number = model.num_boosted_rounds() - 1
    dumps = [json.loads(one) for one in model[number : number + 1].get_dump(dump_format="json", with_stats=True)]
    if not dumps:
        return {}
    share = sum("leaf" in root for root in dumps) / len(dumps)
    found = {UNSPLIT_TREES: share}
    settings = dict(settings_of(json.loads(model.save_config())))
    weight = max(float(root.get("cover", 0.0)) for root in dumps)
    if share == 1 and weight > 0 and "min_child_weight" in settings:
        found[LEAST_WEIGHT_OF_SPLIT] = 2 * float(settings["min_child_weight"]) / weight
    return found


def _stopped_by(ended: Round) -> Mapping[str, float]:
    """Return the share of the rows that end the boosting which are trained on; nothing if no set ends it."""
    stops = [each for each in ended.boosting.callbacks if isinstance(each, EarlyStopping)]
    sets = {name: data for data, name in ended.sets}
    if not stops or not sets:
        return {}
    names = [each.data or next(reversed(sets)) for each in stops]
    known = [name for name in names if name in sets]
    if not known:
        return {}
    return {EVALUATED_ROWS_TRAINED_ON: float(all(_is_same(sets[name], ended.training) for name in known))}


def _is_same(data: Any, training: Any) -> bool:
    """Return True for the training set, and for a matrix of its rows in their order."""
    if data is training:
        return True
    if (data.num_row(), data.num_col()) != (training.num_row(), training.num_col()):
        return False
    if not np.array_equal(data.get_label(), training.get_label()):
        return False
    rows = np.linspace(0, data.num_row() - 1, min(data.num_row(), _COMPARED)).astype(np.int64).tolist()
    try:
        own, other = (each.slice(rows).get_data() for each in (data, training))
    except xgboost.core.XGBoostError:  # with quantiles, or in external memory
        return False
    return bool((own != other).nnz == 0)
