#!/usr/bin/env bash
# With `use_ema` Keras' `val_loss` is that of other weights than those that `fit` leaves, and two fits are not one of
# both.
#
# Guess, before the run (50 %): two calls of `fit` train as one of as many epochs, since the average lives in the
# optimizer.
# Seen, keras 3.15.1 on torch 2.13.0: the history has the losses of the plain weights; when `fit` ends, the averages are
# written over them, and the next `fit` goes on from there. Four fits of one epoch end where one of four was long
# before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

chance = np.random.default_rng(0)
rows = chance.normal(size=(32, 3)).astype("float32")
labels = rows.sum(1, keepdims=True)


def network(*, averaged):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05, use_ema=averaged, ema_momentum=0.9), "mse")
    return model


def fitted(model, fits):
    seen = []
    for epochs in fits:
        history = model.fit(
            rows, labels, batch_size=8, epochs=epochs, shuffle=False, verbose=0, validation_data=(rows, labels)
        ).history
        seen += history["val_loss"]
    return f"val_loss {seen[-1]:.2f}, evaluated after it {model.evaluate(rows, labels, verbose=0):.2f}"


for averaged in (False, True):
    for fits in ((4,), (1, 1, 1, 1)):
        print(f"use_ema={averaged}, fits of {fits} epochs:", fitted(network(averaged=averaged), fits))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
use_ema=False, fits of (4,) epochs: val_loss 0.18, evaluated after it 0.18
use_ema=False, fits of (1, 1, 1, 1) epochs: val_loss 0.18, evaluated after it 0.18
use_ema=True, fits of (4,) epochs: val_loss 0.18, evaluated after it 1.01
use_ema=True, fits of (1, 1, 1, 1) epochs: val_loss 1.01, evaluated after it 2.15
OUTPUT
