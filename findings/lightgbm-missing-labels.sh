#!/usr/bin/env bash
# LightGBM takes a missing label for 0 and a missing weight for 0, without a word; all others refuse them.
#
# Guess, before the run (75 %): training on labels that hold NaN is refused, as XGBoost, CatBoost and scikit-learn do.
# Seen, lightgbm 4.7.0: a quarter of the labels (all about 5) missing gives the model that the same labels give with 0
# in their place, tree by tree; missing weights count nothing. Negative weights are taken, too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check lightgbm==4.7.0 xgboost-cpu==3.2.0 catboost==1.2.10 scikit-learn==1.9.1 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import math

import catboost
import lightgbm
import numpy as np
import xgboost
from sklearn.ensemble import HistGradientBoostingRegressor

chance = np.random.default_rng(0)
rows = chance.normal(size=(200, 3))
labels = 5 + rows[:, 0]
ones = np.ones(200)


def with_first(values, first):
    """Return the values with a quarter of them replaced."""
    return np.concatenate([np.full(50, first), values[50:]])


def of_lightgbm(labels, weights=ones):
    data = lightgbm.Dataset(rows, labels, weight=weights)
    return lightgbm.train({"verbosity": -1, "num_threads": 1}, data, 20).predict(rows)


def of_xgboost(labels, weights=ones):
    return xgboost.train({"nthread": 1}, xgboost.DMatrix(rows, labels, weight=weights), 20).predict(xgboost.DMatrix(rows))


def of_catboost(labels, weights=ones):
    model = catboost.CatBoostRegressor(iterations=20, verbose=0, allow_writing_files=False, thread_count=1)
    return model.fit(rows, labels, sample_weight=weights).predict(rows)


def of_scikit_learn(labels, weights=ones):
    return HistGradientBoostingRegressor(max_iter=20).fit(rows, labels, sample_weight=weights).predict(rows)


for train in (of_lightgbm, of_xgboost, of_catboost, of_scikit_learn):
    said = []
    for missing, zero in (
        ((with_first(labels, math.nan),), (with_first(labels, 0.0),)),
        ((labels, with_first(ones, math.nan)), (labels, with_first(ones, 0.0))),
    ):
        try:
            said.append("as 0" if np.array_equal(train(*missing), train(*zero)) else "otherwise")
        except Exception:
            said.append("refused")
    print(f"{train.__name__[3:]}: labels {said[0]}, weights {said[1]}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
lightgbm: labels as 0, weights as 0
xgboost: labels refused, weights refused
catboost: labels refused, weights refused
scikit_learn: labels refused, weights refused
OUTPUT
