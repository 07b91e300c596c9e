#!/usr/bin/env bash
# A label that is no class: optax counts -1 from the end, and gives -100 the loss NaN with a finite gradient; Keras on
# JAX gives each the loss 0, Keras on PyTorch raises.
#
# Guess, before the run: optax says NaN for each (55 %), and its gradient is NaN, too (80 %); Keras on JAX says NaN (50 %).
# Seen, optax 0.2.8 with jax 0.10.2, keras 3.15.1, three classes: -100, with which PyTorch and transformers mark what
# does not count, pushes all scores down at a loss of NaN; -1 trains the last class.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check optax==0.2.8 jax==0.10.2 jaxlib==0.10.2 keras==3.15.1 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import os
import subprocess
import sys

LABELS = (2, -1, 3, -100)
if len(sys.argv) == 1:
    import jax
    import jax.numpy as jnp
    import optax

    scores = jnp.log(jnp.array([[0.1, 0.2, 0.7]]))
    for label in LABELS:

        def loss(scores, label=label):
            return optax.softmax_cross_entropy_with_integer_labels(scores, jnp.array([label])).mean()

        gradient = " ".join(f"{each:.1f}" for each in jax.grad(loss)(scores)[0])
        print(f"optax, label {label}: loss {loss(scores):.3f}, gradient {gradient}", flush=True)
    for backend in ("jax", "torch"):
        subprocess.run([sys.executable, __file__, backend], env={**os.environ, "KERAS_BACKEND": backend}, check=True)
else:
    import keras
    import numpy as np

    said = []
    for label in LABELS:
        try:
            scores = np.log(np.array([[0.1, 0.2, 0.7]]))
            loss = keras.losses.sparse_categorical_crossentropy(np.array([label]), scores, from_logits=True)
            said.append(f"{label}: {abs(float(loss[0])):.3f}")
        except Exception as error:
            said.append(f"{label}: {type(error).__name__}")
    print(f"keras on {sys.argv[1]}:", ", ".join(said), flush=True)
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
optax, label 2: loss 0.357, gradient 0.1 0.2 -0.3
optax, label -1: loss 0.357, gradient 0.1 0.2 -0.3
optax, label 3: loss nan, gradient 0.1 0.2 0.7
optax, label -100: loss nan, gradient 0.1 0.2 0.7
keras on jax: 2: 0.357, -1: 0.000, 3: 0.000, -100: 0.000
keras on torch: 2: 0.357, -1: IndexError, 3: IndexError, -100: 0.000
OUTPUT
