#!/usr/bin/env bash
# A first evaluation of NaN is the best one for ever: early stopping ends a run that gets better with each round.
#
# Guess, before the run (70 %): NaN is no best value, so that the next evaluation replaces it (it does in PyTorch's
# `ReduceLROnPlateau`).
# Seen, xgboost-cpu 3.2.0, lightgbm 4.7.0, keras 3.15.1 on torch 2.13.0: all comparisons with NaN are false, so the first
# value stays; boosting ends after the patience with the first round as the best, Keras ends likewise, and Keras' own
# `ReduceLROnPlateau` lowers the rate again and again while the metric falls.
# Metrics whose first value is NaN: an AUC of a fold with one class, a correlation with constant predictions.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check xgboost-cpu==3.2.0 lightgbm==4.7.0 keras==3.15.1 torch==2.13.0 numpy==2.4.6 scipy
cat >"$folder/seen.py" <<'PYTHON'
import math
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import lightgbm
import numpy as np
import torch
import xgboost

chance = np.random.default_rng(0)
rows = chance.normal(size=(200, 3))
labels = (rows[:, 0] > 0).astype(int)


def falling():
    """Return a function that returns NaN first, then 1/2, 1/3, ..."""
    calls = iter(range(1, 1000))
    return lambda: math.nan if (call := next(calls)) == 1 else 1 / call


value, data = falling(), xgboost.DMatrix(rows, labels)
model = xgboost.train(
    {"objective": "binary:logistic", "disable_default_eval_metric": 1}, data, 30, evals=[(data, "v")], verbose_eval=False,
    custom_metric=lambda _p, _d: ("metric", value()), early_stopping_rounds=5,
)
print("xgboost: rounds", model.num_boosted_rounds(), "best", model.best_iteration, model.best_score)

value, data, seen = falling(), lightgbm.Dataset(rows, labels), {}
model = lightgbm.train(
    {"objective": "binary", "metric": "None", "verbosity": -1}, data, 30, valid_sets=[lightgbm.Dataset(rows, labels, reference=data)],
    feval=lambda _p, _d: ("metric", value(), False),
    callbacks=[lightgbm.early_stopping(5, verbose=False), lightgbm.record_evaluation(seen)],
)
print("lightgbm: rounds", len(seen["valid_0"]["metric"]), "best", model.best_iteration)


class Metric(keras.callbacks.Callback):
    """A metric that is computed at the end of an epoch."""

    def __init__(self):
        super().__init__()
        self.next = falling()

    def on_epoch_end(self, epoch, logs=None):
        logs["metric"] = self.next()


def epochs(callback):
    network = keras.Sequential([keras.layers.Dense(1)])
    network.compile(keras.optimizers.SGD(0.01), "mse")
    history = network.fit(rows, labels, epochs=12, verbose=0, callbacks=[Metric(), callback])
    return len(history.epoch), float(network.optimizer.learning_rate)


print("keras EarlyStopping: epochs", epochs(keras.callbacks.EarlyStopping("metric", mode="min", patience=5))[0])
print(f"keras ReduceLROnPlateau: rate {epochs(keras.callbacks.ReduceLROnPlateau('metric', mode='min', patience=5))[1]:g}")
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
schedule, value = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=5), falling()
for _ in range(12):
    schedule.step(value())
print("torch ReduceLROnPlateau: rate", optimizer.param_groups[0]["lr"])
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
xgboost: rounds 6 best 0 nan
lightgbm: rounds 6 best 1
keras EarlyStopping: epochs 6
keras ReduceLROnPlateau: rate 0.0001
torch ReduceLROnPlateau: rate 0.01
OUTPUT
