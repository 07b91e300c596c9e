#!/usr/bin/env bash
# `best_iteration` of a continued booster: XGBoost and LightGBM count the old trees in, CatBoost does not.
#
# Guess, before the run (60 %): all three count from the first tree of the model that is continued.
# Seen, xgboost-cpu 3.2.0, lightgbm 4.7.0, catboost 1.2.10, each continued after ten trees with early stopping: a
# prediction with CatBoost's first `best_iteration_ + 1` trees leaves out as many of the best model as were there before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check xgboost-cpu==3.2.0 lightgbm==4.7.0 catboost==1.2.10 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import catboost
import lightgbm
import numpy as np
import xgboost

OLD = 10
chance = np.random.default_rng(0)
rows, held_out = chance.normal(size=(300, 5)), chance.normal(size=(300, 5))
labels, held_out_labels = rows[:, 0] + chance.normal(size=300), held_out[:, 0] + chance.normal(size=300)

data, others = xgboost.DMatrix(rows, labels), xgboost.DMatrix(held_out, held_out_labels)
settings, said = {"eta": 0.05, "nthread": 1}, {}
model = xgboost.train(
    settings, data, 300, evals=[(others, "others")], early_stopping_rounds=5, verbose_eval=False, evals_result=said,
    xgb_model=xgboost.train(settings, data, OLD),
)
print("xgboost: best_iteration less the best new round:", model.best_iteration - int(np.argmin(said["others"]["rmse"])))

settings, said = {"learning_rate": 0.05, "verbosity": -1, "num_threads": 1}, {}
model = lightgbm.train(
    settings, lightgbm.Dataset(rows, labels), 300, valid_sets=[lightgbm.Dataset(held_out, held_out_labels)],
    callbacks=[lightgbm.early_stopping(5, verbose=False), lightgbm.record_evaluation(said)],
    init_model=lightgbm.train(settings, lightgbm.Dataset(rows, labels), OLD),
)
print("lightgbm: best_iteration less the best new round:", model.best_iteration - int(np.argmin(said["valid_0"]["l2"])))

settings = {"learning_rate": 0.05, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
old = catboost.CatBoostRegressor(iterations=OLD, **settings).fit(rows, labels)
model = catboost.CatBoostRegressor(iterations=300, early_stopping_rounds=5, **settings)
model.fit(rows, labels, eval_set=(held_out, held_out_labels), init_model=old)
new = int(np.argmin(model.evals_result_["validation"]["RMSE"]))
print("catboost: best_iteration less the best new round:", model.best_iteration_ - new)
print("catboost: trees beyond best_iteration:", model.tree_count_ - (model.best_iteration_ + 1))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
xgboost: best_iteration less the best new round: 10
lightgbm: best_iteration less the best new round: 11
catboost: best_iteration less the best new round: 0
catboost: trees beyond best_iteration: 10
OUTPUT
