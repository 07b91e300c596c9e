#!/usr/bin/env bash
# The area under the curve of a fold with one class: seven libraries, four answers, one of them the best there is.
#
# Guess, before the run (40 %): NaN in scikit-learn and XGBoost, 0 in torchmetrics and Keras, 1/2 in torcheval, 1 in
# LightGBM, an error in CatBoost; of the average precision without a positive row nothing was guessed.
# Seen, lightgbm 4.7.0, xgboost-cpu 3.2.0, catboost 1.2.10, scikit-learn 1.9.1, torchmetrics 1.9.0, torcheval 0.0.7,
# keras 3.15.1 on torch 2.13.0: as guessed, but CatBoost says 0 and nothing else. LightGBM says 1 at each round without
# a warning, also for the average precision of rows that are all negative, so early stopping keeps the first round.
# Such folds come from a split by time or by group, and from a shard of a validation set.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check xgboost-cpu==3.2.0 lightgbm==4.7.0 catboost==1.2.10 scikit-learn==1.9.1 torchmetrics==1.9.0 torcheval==0.0.7 keras==3.15.1 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import os
import warnings

os.environ["KERAS_BACKEND"] = "torch"
import catboost
import keras
import lightgbm
import numpy as np
import sklearn.metrics
import torch
import torcheval.metrics.functional
import torchmetrics.functional
import xgboost

warnings.simplefilter("ignore")
rows = np.random.default_rng(0).normal(size=(200, 3))
labels = (rows[:, 0] > 0).astype(int)
fold, ones = rows[labels == 1], labels[labels == 1]
scores = 1 / (1 + np.exp(1 - fold[:, 0]))  # a third of them on the wrong side of 1/2

print("scikit-learn", sklearn.metrics.roc_auc_score(ones, scores))
print("torchmetrics", float(torchmetrics.functional.auroc(torch.tensor(scores), torch.tensor(ones), task="binary")))
print("torcheval", float(torcheval.metrics.functional.binary_auroc(torch.tensor(scores), torch.tensor(ones))))
curve = keras.metrics.AUC()
curve.update_state(ones, scores)
print("keras", float(curve.result()))

seen = {}
xgboost.train(
    {"objective": "binary:logistic", "eval_metric": "auc", "verbosity": 0}, xgboost.DMatrix(rows, labels), 3,
    evals=[(xgboost.DMatrix(fold, ones), "fold")], evals_result=seen, verbose_eval=False,
)
print("xgboost", *seen["fold"]["auc"])
model = catboost.CatBoostClassifier(iterations=3, eval_metric="AUC", verbose=0, allow_writing_files=False)
model.fit(rows, labels, eval_set=(fold, ones))
print("catboost", *model.get_evals_result()["validation"]["AUC"])
for name, part in (("positive", labels == 1), ("negative", labels == 0)):
    seen, data = {}, lightgbm.Dataset(rows, labels)
    model = lightgbm.train(
        {"objective": "binary", "metric": ["auc", "average_precision"], "verbosity": -1}, data, 30,
        valid_sets=[lightgbm.Dataset(rows[part], labels[part], reference=data)],
        callbacks=[lightgbm.record_evaluation(seen), lightgbm.early_stopping(5, verbose=False)],
    )
    values = seen["valid_0"]
    print("lightgbm", name, "auc", *map(float, values["auc"][:3]), "average precision", *map(float, values["average_precision"][:3]), "best", model.best_iteration)
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
scikit-learn nan
torchmetrics 0.0
torcheval 0.5
keras 0.0
xgboost nan nan nan
catboost 0.0 0.0 0.0
lightgbm positive auc 1.0 1.0 1.0 average precision 1.0 1.0 1.0 best 1
lightgbm negative auc 1.0 1.0 1.0 average precision 1.0 1.0 1.0 best 1
OUTPUT
