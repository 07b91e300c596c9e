#!/usr/bin/env bash
# XGBoost's log loss jumps from 15 to 37 for a negative row that is certainly wrong, and does not for a positive one.
#
# Guess, before the run (70 %): the loss of a score of +20 for a negative row is that of -20 for a positive one.
# Seen, xgboost-cpu 3.2.0: probabilities are of single precision, so one beyond 1 - 3e-8 is 1, and its complement is cut
# at 1e-16. LightGBM 4.7.0 computes in double precision. A curve or an early stopping by `logloss` of rare positives
# jumps.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check xgboost-cpu==3.2.0 lightgbm==4.7.0 scikit-learn==1.9.1 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import lightgbm
import numpy as np
import xgboost

ROWS = np.zeros((4, 1))


def of_xgboost(label, score):
    data = xgboost.DMatrix(ROWS, label=np.full(4, label), base_margin=np.full(4, score))
    model = xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 0)
    return float(model.eval(data).rpartition(":")[2])


def of_lightgbm(label, score):
    data, seen = lightgbm.Dataset(ROWS, np.full(4, label), init_score=np.full(4, score)), {}
    settings = {"objective": "binary", "learning_rate": 1e-9, "verbosity": -1, "num_threads": 1}
    lightgbm.train(settings, data, 1, valid_sets=[data], callbacks=[lightgbm.record_evaluation(seen)])
    return seen["training"]["binary_logloss"][0]


for score in (12.0, 15.0, 17.0, 20.0):
    for name, loss in {"xgboost": of_xgboost, "lightgbm": of_lightgbm}.items():
        print(f"{name}, score {score:g}: wrong of a negative row {loss(0.0, score):.2f}, of a positive", end=" ")
        print(f"{loss(1.0, -score):.2f}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
xgboost, score 12: wrong of a negative row 11.99, of a positive 12.00
lightgbm, score 12: wrong of a negative row 12.00, of a positive 12.00
xgboost, score 15: wrong of a negative row 14.84, of a positive 15.00
lightgbm, score 15: wrong of a negative row 15.00, of a positive 15.00
xgboost, score 17: wrong of a negative row 36.84, of a positive 17.00
lightgbm, score 17: wrong of a negative row 17.00, of a positive 17.00
xgboost, score 20: wrong of a negative row 36.84, of a positive 20.00
lightgbm, score 20: wrong of a negative row 20.00, of a positive 20.00
OUTPUT
