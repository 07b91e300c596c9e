#!/usr/bin/env bash
# GradScaler calls a fused optimizer also at a step that it skips: hooks of the step run, and no weight changes.
#
# Guess, before the run (80 %): a skipped step calls no hook, whatever the optimizer, as `scaler.step` "skips optimizer.step()".
# Seen, torch 2.13.0 (CPU), SGD, the second of three steps overflows:
#   fused=False: 2 hooks, 2 changes of the weights
#   fused=True:  3 hooks, 2 changes of the weights
# Who counts steps, schedules or gradients by hooks counts steps that never were, with gradients that are infinite.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import torch


def seen(fused: bool) -> tuple[int, int]:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1, fused=fused)
    hooks: list[int] = []
    optimizer.register_step_post_hook(lambda *_: hooks.append(1))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    changes = 0
    for factor in (1.0, float("inf"), 1.0):  # an overflow, as scales have that are still too high
        before = weight.detach().clone()
        optimizer.zero_grad()
        scaler.scale((weight * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        changes += not torch.equal(before, weight.detach())
    return len(hooks), changes


for fused in (False, True):
    print(f"torch {torch.__version__.partition('+')[0]} fused={fused}: hooks, changes: {seen(fused)}")
PYTHON
"$folder/venv/bin/python" "$folder/seen.py" >"$folder/output"
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
torch 2.13.0 fused=False: hooks, changes: (2, 2)
torch 2.13.0 fused=True: hooks, changes: (3, 2)
OUTPUT
