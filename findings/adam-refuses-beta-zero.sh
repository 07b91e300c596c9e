#!/usr/bin/env bash
# Adam and AdamW refuse `betas=(0, 0.9)`, as training scripts of WGAN-GP and its heirs write it; RAdam and NAdam take it.
#
# Guess, before the run (95 %): all take it, as an integer is a number wherever PyTorch takes one: `lr=1` is fine.
# Seen, torch 2.13.0: Adam and AdamW raise a ValueError that speaks of floats and tensors.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import torch

for name in ("Adam", "AdamW", "RAdam", "NAdam", "Adamax"):
    for betas in ((0, 0.9), (0.0, 0.9)):
        try:
            getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(2))], lr=1, betas=betas)
            print(name, betas, "taken")
        except ValueError as error:
            print(name, betas, error)
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
Adam (0, 0.9) betas must be either both floats or both Tensors
Adam (0.0, 0.9) taken
AdamW (0, 0.9) betas must be either both floats or both Tensors
AdamW (0.0, 0.9) taken
RAdam (0, 0.9) taken
RAdam (0.0, 0.9) taken
NAdam (0, 0.9) taken
NAdam (0.0, 0.9) taken
Adamax (0, 0.9) taken
Adamax (0.0, 0.9) taken
OUTPUT
