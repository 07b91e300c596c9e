"""The first rounds of LightGBM: trees without a split, and early stopping by the rows that are trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightgbm
import numpy as np
import pandas
import pytest

from trackside.adapters.lightgbm.first_rounds import numbers_of, stopped_by
from trackside.contracts.run.recorded_names import EVALUATED_ROWS_TRAINED_ON, LEAST_WEIGHT_OF_SPLIT, UNSPLIT_TREES

random = np.random.default_rng(0)
INPUTS, OTHERS = random.normal(size=(200, 4)), random.normal(size=(200, 4))
LABELS, OTHER_LABELS = ((each[:, 0] > 0).astype(int) for each in (INPUTS, OTHERS))


def rounds(**settings: Any) -> list[Mapping[str, float]]:
    found: list[Mapping[str, float]] = []
    chosen = {"objective": "binary", "verbose": -1, "num_threads": 1, **settings}
    callbacks = [lambda round_: found.append(numbers_of(round_, 0.0))]
    lightgbm.train(chosen, lightgbm.Dataset(INPUTS, LABELS), 5, callbacks=callbacks)
    return found


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({}, 0.0),
        ({"min_data_in_leaf": 500}, 1.0),
        ({"min_gain_to_split": 1e9}, 1.0),
        ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, 0.0),
        ({"objective": "multiclass", "num_class": 2}, 0.0),
    ],
)
def test_trees_without_a_split(settings: Mapping[str, Any], share: float) -> None:
    found = rounds(**settings)
    assert [numbers.get(UNSPLIT_TREES) for numbers in found] == [share] * 3 + [None] * 2
    assert [numbers[EVALUATED_ROWS_TRAINED_ON] for numbers in found[:3]] == [0.0] * 3
    needed = [numbers[LEAST_WEIGHT_OF_SPLIT] for numbers in found if LEAST_WEIGHT_OF_SPLIT in numbers]
    assert needed == ([2 * settings.get("min_data_in_leaf", 20) / 200] * 3 if share else [])


def sets() -> dict[str, lightgbm.Dataset]:
    frame = pandas.DataFrame(INPUTS)
    return {
        "train": lightgbm.Dataset(INPUTS, LABELS),
        "again": lightgbm.Dataset(INPUTS, LABELS),
        "copied": lightgbm.Dataset(INPUTS.copy(), LABELS.copy()),
        "held back": lightgbm.Dataset(OTHERS, OTHER_LABELS),
        "part": lightgbm.Dataset(INPUTS[:100], LABELS[:100]),
        "a frame": lightgbm.Dataset(frame, LABELS),
    }


@pytest.mark.parametrize(
    ("names", "share"),
    [
        (("train",), 1.0),
        (("again",), 1.0),
        (("copied",), 1.0),
        (("train", "again"), 1.0),
        (("held back",), 0.0),
        (("train", "held back"), 0.0),
        (("part",), 0.0),
        (("a frame",), 0.0),
        ((), None),
    ],
)
def test_rows_that_stop(names: tuple[str, ...], share: float | None) -> None:
    known = sets()
    call = {"train_set": known["train"], "valid_sets": [known[name] for name in names]}
    stops = {"callbacks": [lightgbm.early_stopping(5, verbose=False)]}
    assert stopped_by({**call, **stops}) == share
    assert stopped_by({**call, "params": {"early_stopping_round": 5}}) == share
    assert stopped_by(call) is None
