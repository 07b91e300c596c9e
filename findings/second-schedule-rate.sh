#!/usr/bin/env bash
# A second LambdaLR goes back to the rate that its optimizer was made with, whatever rate has been set since.
#
# Guess, before the run (75 %): a schedule that is made for a second phase begins at the rate that the optimizer has.
# Seen, torch 2.13.0: the first schedule of an optimizer leaves `initial_lr` in its groups, and a later one does not
# replace it. Schedules that compute from the first rate (LambdaLR, which transformers' schedules are, and
# CosineAnnealingWarmRestarts) take that one, here a hundred times the rate just set; those that multiply the present
# rate take the present one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import torch
from torch.optim import lr_scheduler

SECOND = {
    "LambdaLR": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 1.0),
    "CosineAnnealingWarmRestarts": lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10**6),
    "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 100),
    "CosineAnnealingLR": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 10**6),
    "LinearLR": lambda optimizer: lr_scheduler.LinearLR(optimizer, 1.0, 1.0, 100),
}
for name, second in SECOND.items():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    lr_scheduler.StepLR(optimizer, 100)  # the first phase
    for group in optimizer.param_groups:
        group["lr"] = 0.01  # for the second phase
    schedule, rates = second(optimizer), []
    for _ in range(2):
        rates.append(f"{optimizer.param_groups[0]['lr']:.3g}")
        optimizer.step()
        schedule.step()
    print(f"{name}:", *rates)
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
LambdaLR: 1 1
CosineAnnealingWarmRestarts: 1 1
StepLR: 0.01 0.01
CosineAnnealingLR: 0.01 0.01
LinearLR: 0.01 0.01
OUTPUT
