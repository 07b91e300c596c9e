#!/usr/bin/env bash
# `fit(steps_per_epoch=3)` of a loader of four batches trains epochs of three steps and of one step in turn.
#
# Guess, before the run (50 %): epochs have three steps each; the second one has the fourth batch and the next pass's
# first two.
# Seen, keras 3.15.1 on torch 2.13.0: an epoch goes on where the one before ended, and ends where the loader does. No
# warning is given; a schedule, an early stopping and a mean of the epoch count the short epoch as a whole one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import os
import warnings

os.environ["KERAS_BACKEND"] = "torch"
warnings.simplefilter("ignore")
import keras
import torch


class Steps(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        seen.append(0)

    def on_train_batch_end(self, batch, logs=None):
        seen[-1] += 1


data = torch.utils.data.TensorDataset(torch.ones(16, 1), torch.ones(16, 1))
for steps in (2, 3, 4):
    seen = []
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    model.fit(loader, steps_per_epoch=steps, epochs=4, verbose=0, callbacks=[Steps()])
    print(f"steps_per_epoch={steps} of a loader of 4 batches: steps of each epoch {seen}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
steps_per_epoch=2 of a loader of 4 batches: steps of each epoch [2, 2, 2, 2]
steps_per_epoch=3 of a loader of 4 batches: steps of each epoch [3, 1, 3, 1]
steps_per_epoch=4 of a loader of 4 batches: steps of each epoch [4, 4, 4, 4]
OUTPUT
