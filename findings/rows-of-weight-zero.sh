#!/usr/bin/env bash
# Rows of weight 0 change the model in LightGBM, CatBoost and scikit-learn's histograms, not in XGBoost.
#
# Guess, before the run (40 %): a row of weight 0 is as good as none, in all of them.
# Seen, lightgbm 4.7.0, catboost 1.2.10, scikit-learn 1.9.1, xgboost-cpu 3.2.0: weights are left out where borders of
# bins are chosen and rows of a leaf are counted. Who masks rows by weights (a fold, a time window, padding) lets them
# take part.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check xgboost-cpu==3.2.0 lightgbm==4.7.0 catboost==1.2.10 scikit-learn==1.9.1 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import numpy as np
from catboost import CatBoostRegressor
from lightgbm import LGBMRegressor
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from xgboost import XGBRegressor

MODELS = {
    "xgboost": lambda: XGBRegressor(n_estimators=20, max_depth=3, n_jobs=1),
    "lightgbm": lambda: LGBMRegressor(n_estimators=20, max_depth=3, n_jobs=1, verbose=-1),
    "catboost": lambda: CatBoostRegressor(iterations=20, depth=3, verbose=0, allow_writing_files=False, thread_count=1),
    "HistGradientBoosting": lambda: HistGradientBoostingRegressor(max_iter=20, max_depth=3, early_stopping=False),
    "GradientBoosting": lambda: GradientBoostingRegressor(n_estimators=20, random_state=0),
}
chance = np.random.default_rng(0)
rows = chance.normal(size=(400, 4))
labels = rows[:, 0] + 0.3 * chance.normal(size=400)
others = chance.normal(size=(400, 4)) * 10 + 50
all_rows, all_labels = np.vstack([rows, others]), np.r_[labels, np.full(400, -1000.0)]
weights = np.r_[np.ones(400), np.zeros(400)]
for name, model in MODELS.items():
    alone = model().fit(rows, labels, sample_weight=np.ones(400)).predict(rows)
    beside = model().fit(all_rows, all_labels, sample_weight=weights).predict(rows)
    print(f"{name}: the same predictions: {np.allclose(alone, beside, atol=1e-6)}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
xgboost: the same predictions: True
lightgbm: the same predictions: False
catboost: the same predictions: False
HistGradientBoosting: the same predictions: False
GradientBoosting: the same predictions: True
OUTPUT
