#!/usr/bin/env bash
# Keras steps a schedule of the rate for each micro-batch of an accumulation, although `optimizer.iterations` counts
# updates.
#
# Guess, before the run (80 %): a schedule counts what `iterations` counts.
# Seen, keras 3.15.1 on torch 2.13.0, rates halved at each step: with `gradient_accumulation_steps=4` the first update
# has the rate of step 3, the fourth that of step 15. A warm-up or a decay of N updates is over after N / 4.
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

rows = np.ones((16, 1), "float32")


def updates(parts):
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.layers[0].kernel.assign([[0.0]])
    schedule = keras.optimizers.schedules.ExponentialDecay(1.0, decay_steps=1, decay_rate=0.5)
    optimizer = keras.optimizers.SGD(schedule, gradient_accumulation_steps=parts)
    # The gradient is always -1, so an update is the rate.
    model.compile(optimizer, loss=lambda labels, predictions: -keras.ops.mean(predictions))
    seen, before = [], 0.0

    class Changes(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            nonlocal before
            weight = float(keras.ops.convert_to_numpy(model.layers[0].kernel)[0, 0])
            if weight != before:
                seen.append(round(weight - before, 5))
            before = weight

    model.fit(rows, rows, batch_size=1 if parts else 4, epochs=1, verbose=0, callbacks=[Changes()])
    return seen, int(optimizer.iterations)


for parts in (None, 4):
    rates, iterations = updates(parts)
    print(f"gradient_accumulation_steps={parts}: optimizer.iterations {iterations}, rates of the updates {rates}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
gradient_accumulation_steps=None: optimizer.iterations 4, rates of the updates [1.0, 0.5, 0.25, 0.125]
gradient_accumulation_steps=4: optimizer.iterations 4, rates of the updates [0.125, 0.00781, 0.00049, 3e-05]
OUTPUT
