#!/usr/bin/env bash
# One micro-batch with a NaN stays in the accumulator of `optax.MultiSteps` for the rest of the run.
#
# Guess, before the run (75 %): with `MultiSteps(apply_if_finite(...), 2)` a NaN micro-batch spoils the update that it
# is part of, which is left out, and the next updates are good.
# Seen, optax 0.2.8 with jax 0.10.2: the mean of the gradients is set to zero by a product, and NaN times zero is NaN.
# No later update is ever made; after the third one that `apply_if_finite` leaves out (its limit here) it applies the
# next, and the weights are NaN. The other way round, `apply_if_finite(MultiSteps(...))`, goes on at once, as does
# `should_skip_update_fn=optax.skip_not_finite`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check optax==0.2.8 jax==0.10.2 jaxlib==0.10.2
cat >"$folder/seen.py" <<'PYTHON'
import jax.numpy as jnp
import optax

GRADIENTS = [1.0, float("nan")] + [1.0] * 12  # one micro-batch of fourteen


def weights(optimizer) -> str:
    weight = jnp.zeros(1)
    state, seen = optimizer.init(weight), []
    for gradient in GRADIENTS:
        update, state = optimizer.update(jnp.array([gradient]), state, weight)
        weight = weight + update
        seen.append(f"{float(weight[0]):g}")
    return " ".join(seen[1::2])


descent = optax.sgd(1.0)
print("MultiSteps(apply_if_finite):", weights(optax.MultiSteps(optax.apply_if_finite(descent, 3), 2)))
print("apply_if_finite(MultiSteps):", weights(optax.apply_if_finite(optax.MultiSteps(descent, 2), 3)))
print("skip_not_finite:            ", weights(optax.MultiSteps(descent, 2, should_skip_update_fn=optax.skip_not_finite)))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
MultiSteps(apply_if_finite): 0 0 0 nan nan nan nan
apply_if_finite(MultiSteps): 0 -1 -2 -3 -4 -5 -6
skip_not_finite:             0 -1 -2 -3 -4 -5 -6
OUTPUT
