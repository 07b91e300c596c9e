#!/usr/bin/env bash
# PEFT's `add_weighted_adapter(..., "linear")` of two adapters is not the weighted sum of their updates.
#
# Guess, before the run (50 %): it is.
# Seen, peft 0.21.2 with torch 2.13.0: the factors A and B are added each by itself, so the product has the updates of A
# of one with B of the other, which nobody trained: as large an error as the sum itself. `cat` is exact, `svd`, the
# default, is cut to the rank of one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check peft==0.21.2 transformers==5.23.0 accelerate==1.15.0 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import warnings

warnings.simplefilter("ignore")
import torch
from peft import LoraConfig, get_peft_model

torch.manual_seed(0)
settings = {"r": 8, "target_modules": ["0"], "init_lora_weights": False}
model = get_peft_model(torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False)), LoraConfig(**settings))
model.add_adapter("second", LoraConfig(**settings))
layer = model.base_model.model[0]


def update(name: str) -> torch.Tensor:
    return layer.get_delta_weight(name).detach()


wanted = 0.5 * update("default") + 0.5 * update("second")
for kind in ("linear", "svd", "cat"):
    model.add_weighted_adapter(["default", "second"], [0.5, 0.5], kind, combination_type=kind)
    error = ((update(kind) - wanted).norm() / wanted.norm()).item()
    likeness = torch.nn.functional.cosine_similarity(update(kind).flatten(), wanted.flatten(), dim=0).item()
    print(f"{kind}: error {abs(error):.2f} of the weighted sum, cosine {likeness:.2f}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
linear: error 1.00 of the weighted sum, cosine 0.70
svd: error 0.49 of the weighted sum, cosine 0.87
cat: error 0.00 of the weighted sum, cosine 1.00
OUTPUT
