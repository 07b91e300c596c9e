#!/usr/bin/env bash
# Keras' `CSVLogger` takes its columns from the first epoch: a metric that comes later is never written, and a `fit`
# without any validation data writes a column `val_loss` of "NA".
#
# Guess, before the run (40 % for a new column, 95 % for no column of a validation that is not there).
# Seen, keras 3.15.1 on torch 2.13.0: no column for the later metric and no warning; `val_loss` in the head of the file
# and NA in each row.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import csv
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np


class Later(keras.callbacks.Callback):
    """A metric that is computed from the second epoch on."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch:
            logs["later"] = 1.0


network = keras.Sequential([keras.layers.Dense(1)])
network.compile("sgd", "mse")
rows = np.ones((8, 2))
history = network.fit(rows, rows[:, :1], epochs=3, verbose=0, callbacks=[Later(), keras.callbacks.CSVLogger("log.csv")])
with open("log.csv", newline="") as file:
    written = list(csv.DictReader(file))
print("history:", sorted(history.history), "columns:", list(written[0]))
print("val_loss:", [row["val_loss"] for row in written])
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
history: ['later', 'loss'] columns: ['epoch', 'loss', 'val_loss']
val_loss: ['NA', 'NA', 'NA']
OUTPUT
