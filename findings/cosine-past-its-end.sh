#!/usr/bin/env bash
# A cosine schedule that has ended rises again in transformers, up to the full rate, as in torch; Keras' stays.
#
# Guess, before the run (65 %): transformers' schedule stays at its end, as its linear one does.
# Seen, transformers 5.23.0, torch 2.13.0, keras 3.15.1: who trains longer than the number of steps that was given, for
# it was counted without accumulation, without epochs or before a resume, ends at a high rate.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check transformers==5.23.0 keras==3.15.1 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import os
import warnings

warnings.simplefilter("ignore")
os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch
from transformers import get_scheduler

STEPS = 10


def rates(make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    schedule = make(optimizer)
    seen = []
    for _ in range(2 * STEPS):
        optimizer.step()
        schedule.step()
        seen.append(optimizer.param_groups[0]["lr"])
    return seen


def shown(name, seen):
    print(f"{name}: rate at the end {seen[STEPS - 1]:.2f}, half as long again {seen[STEPS * 3 // 2 - 1]:.2f},", end=" ")
    print(f"twice as long {seen[-1]:.2f}")


OPTIONS = {"cosine": None, "cosine_with_min_lr": {"min_lr": 0.1}, "linear": None, "cosine_with_restarts": None}
for name, more in OPTIONS.items():
    shown(f"transformers {name}", rates(lambda optimizer: get_scheduler(
        name, optimizer, num_warmup_steps=0, num_training_steps=STEPS, scheduler_specific_kwargs=more,
    )))
shown("torch CosineAnnealingLR", rates(lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)))
decay = keras.optimizers.schedules.CosineDecay(1.0, STEPS)
shown("keras", [float(decay(step)) for step in range(1, 2 * STEPS + 1)])
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
transformers cosine: rate at the end 0.00, half as long again 0.50, twice as long 1.00
transformers cosine_with_min_lr: rate at the end 0.10, half as long again 0.55, twice as long 1.00
transformers linear: rate at the end 0.00, half as long again 0.00, twice as long 0.00
transformers cosine_with_restarts: rate at the end 0.00, half as long again 0.00, twice as long 0.00
torch CosineAnnealingLR: rate at the end 0.00, half as long again 0.50, twice as long 1.00
keras: rate at the end 0.00, half as long again 0.00, twice as long 0.00
OUTPUT
