#!/usr/bin/env bash
# A training loop that stands whole within one `torch.autocast` computes each loss with the weights of its first step.
#
# Guess, before the run (60 %): it trains as one with autocast around each forward pass.
# Seen, torch 2.13.0 (CPU, bfloat16): autocast keeps its casts of weights until the outermost context ends, and a step
# of the optimizer does not drop them. Weights move, all by the gradient of the first loss, and the loss stays what it
# was.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import contextlib

import torch


def losses(around: str) -> list[float]:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.randn(64, 4)
    labels = rows.sum(1, keepdim=True)
    first, seen = model.weight.detach().clone(), []

    def half() -> torch.autocast:
        return torch.autocast("cpu", dtype=torch.bfloat16)

    with half() if around == "the loop" else contextlib.nullcontext():
        for _ in range(6):
            optimizer.zero_grad()
            with half() if around == "the forward pass" else contextlib.nullcontext():
                loss = torch.nn.functional.mse_loss(model(rows).float(), labels)
            loss.backward()
            optimizer.step()
            seen.append(round(loss.item(), 2))
    print("autocast around", around + ":", seen, "weights changed:", not torch.equal(first, model.weight))


losses("the forward pass")
losses("the loop")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
autocast around the forward pass: [5.23, 3.37, 2.19, 1.43, 0.94, 0.62] weights changed: True
autocast around the loop: [5.23, 5.23, 5.23, 5.23, 5.23, 5.23] weights changed: True
OUTPUT
