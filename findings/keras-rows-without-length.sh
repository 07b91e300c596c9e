#!/usr/bin/env bash
# The data set that Keras on PyTorch gives its DataLoader has a length that raises, though the DataLoader itself works.
#
# Guess, before the run (85 %): `len(loader.dataset)` is the number of rows, as of every map-style data set of PyTorch.
# Seen, keras 3.15.1 with torch 2.13.0: TypeError: object of type 'NumpySliceable' has no len(); the loader gives all batches.
# Who asks the data set of a loader for its length (progress bars, samplers, watchers) fails in each `fit` of arrays.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 keras==3.15.1 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import keras
import numpy as np
import torch

seen = set()
original = torch.utils.data.DataLoader.__iter__


def iterate(loader):
    try:
        seen.add(f"length {len(loader.dataset)}")
    except TypeError as error:
        seen.add(f"TypeError: {error}")
    return original(loader)


torch.utils.data.DataLoader.__iter__ = iterate
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
history = model.fit(np.ones((32, 4), "float32"), np.ones((32, 1), "float32"), batch_size=8, verbose=0)
print(f"keras {keras.__version__}:", *sorted(seen), "-", "trained" if history.history["loss"] else "not trained")
PYTHON
KERAS_BACKEND=torch "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors" || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
keras 3.15.1: TypeError: object of type 'NumpySliceable' has no len() - trained
OUTPUT
