#!/usr/bin/env bash
# CatBoost's objective `Cox` grows as a model gets better, and XGBoost's metric of the same model falls.
#
# Guess, before the run (75 %): a training loss falls, in each library of boosted trees, for each objective that has one.
# Seen, catboost 1.2.10 and xgboost-cpu 3.2.0, one data set of survival times, 40 rounds:
#   catboost Cox rises (it is a log-likelihood, reported with its sign), xgboost cox-nloglik falls (its negative).
# Who looks for "a loss that does not fall" in histories of both calls a sound model of CatBoost's stuck.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check catboost==1.2.10 xgboost-cpu==3.2.0 numpy==2.4.6 scipy
cat >"$folder/seen.py" <<'PYTHON'
import catboost
import numpy as np
import xgboost

chance = np.random.default_rng(0)
rows = chance.normal(size=(400, 5))
times = np.exp(rows[:, 0] + 0.2 * chance.normal(size=400))
times[::5] *= -1  # below zero: censored, in both libraries


def direction(values) -> str:
    return "rises" if values[-1] > values[0] else "falls"


model = catboost.CatBoostRegressor(iterations=40, loss_function="Cox", verbose=False, random_seed=0, allow_writing_files=False)
model.fit(rows, times)
print(f"catboost {catboost.__version__}: Cox", direction(model.get_evals_result()["learn"]["Cox"]))
data, results = xgboost.DMatrix(rows, label=times), {}
xgboost.train({"objective": "survival:cox", "seed": 0}, data, 40, evals=[(data, "learn")], evals_result=results, verbose_eval=False)
print(f"xgboost {xgboost.__version__}: cox-nloglik", direction(results["learn"]["cox-nloglik"]))
PYTHON
"$folder/venv/bin/python" "$folder/seen.py" >"$folder/output"
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
catboost 1.2.10: Cox rises
xgboost 3.2.0: cox-nloglik falls
OUTPUT
