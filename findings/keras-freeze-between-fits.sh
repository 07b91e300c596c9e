#!/usr/bin/env bash
# Keras: a layer frozen between two calls of `fit` is frozen at once on PyTorch; on JAX `fit` raises, and the model has
# no weights any more.
#
# Guess, before the run (60 %): until `compile` is called again the second `fit` trains the layer as before, on each
# backend (so it was in Keras 2).
# Seen, keras 3.15.1 on torch 2.13.0 and jax 0.10.2. Freed again after a new `compile`, the layer raises on PyTorch:
# the optimizer was built without it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import os
import subprocess
import sys

if len(sys.argv) == 1:
    for backend in ("torch", "jax"):
        subprocess.run([sys.executable, __file__, backend], env={**os.environ, "KERAS_BACKEND": backend}, check=True)
    sys.exit()

import keras
import numpy as np

rows = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")


def outcome(action):
    """Return what an action returns, or the name of its error."""
    try:
        return action()
    except Exception as error:
        return type(error).__name__


def trained(network, layer):
    """Return True if a `fit` changes a layer."""
    before = network.layers[layer].get_weights()[0].copy()
    network.fit(rows, rows[:, :1], verbose=0)
    return bool((before != network.layers[layer].get_weights()[0]).any())


network = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
network.compile("sgd", "mse")
network.fit(rows, rows[:, :1], verbose=0)
network.layers[0].trainable = False
said = [f"frozen layer trained: {outcome(lambda: trained(network, 0))}"]
said.append(f"weights: {outcome(lambda: len(network.get_weights()))}")
if "TypeError" not in said[-1]:
    network.compile("sgd", "mse")
    network.fit(rows, rows[:, :1], verbose=0)
    network.layers[0].trainable = True
    said.append(f"freed again: {outcome(lambda: trained(network, 0))}")
print(f"{sys.argv[1]}:", ", ".join(said))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
torch: frozen layer trained: False, weights: 4, freed again: ValueError
jax: frozen layer trained: ValueError, weights: TypeError
OUTPUT
