#!/usr/bin/env bash
# Pyro's `ClippedAdam(clip_norm=...)` clips each value, not the norm, and so turns the gradient.
#
# Guess, before the run (60 %): the gradient keeps its direction, and its norm is at most `clip_norm`.
# Seen, pyro-ppl 1.9.2 with torch 2.13.0: a gradient of (1000, 5) becomes (1, 1).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyro-ppl==1.9.2 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import torch
from pyro.optim.clipped_adam import ClippedAdam

for gradient in ([3.0, 4.0], [1000.0, 5.0]):
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = ClippedAdam([weight], lr=1.0, clip_norm=1.0)
    weight.grad = torch.tensor(gradient)
    optimizer.step()
    by_norm = torch.nn.Parameter(torch.zeros(2))
    by_norm.grad = torch.tensor(gradient)
    torch.nn.utils.clip_grad_norm_(by_norm, 1.0)
    print(f"gradient {gradient}: clip_norm=1 makes it {weight.grad.tolist()}", end=", ")
    print(f"of norm {weight.grad.norm():.2f}; clip_grad_norm_ [{by_norm.grad[0]:.3f}, {by_norm.grad[1]:.3f}]")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
gradient [3.0, 4.0]: clip_norm=1 makes it [1.0, 1.0], of norm 1.41; clip_grad_norm_ [0.600, 0.800]
gradient [1000.0, 5.0]: clip_norm=1 makes it [1.0, 1.0], of norm 1.41; clip_grad_norm_ [1.000, 0.005]
OUTPUT
