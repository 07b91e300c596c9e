#!/usr/bin/env bash
# The mean of losses by torchmetrics leaves NaN out: a log shows a finite loss of an epoch in which a step had none.
#
# Guess, before the run (65 %): the mean over 1, NaN and 3 is NaN, as NumPy's, PyTorch's, ignite's and Keras' are.
# Seen, torchmetrics 1.9.0 with torch 2.13.0: 2, with a warning (`nan_strategy="warn"` is the default). An infinite value
# stays, so that the loss overflows visibly and a NaN does not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torchmetrics==1.9.0 torch==2.13.0 pytorch-ignite==0.5.5 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import ignite.metrics
import torch
import torchmetrics

for losses in ([1.0, float("nan"), 3.0], [1.0, float("inf"), 3.0]):
    theirs, other = torchmetrics.MeanMetric(), ignite.metrics.Average()
    for loss in losses:
        theirs.update(loss)
        other.update(loss)
    print(losses, "torchmetrics", theirs.compute().item(), "torch", torch.tensor(losses).mean().item(), "ignite", other.compute())
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
[1.0, nan, 3.0] torchmetrics 2.0 torch nan ignite tensor(nan, dtype=torch.float64)
[1.0, inf, 3.0] torchmetrics inf torch inf ignite tensor(inf, dtype=torch.float64)
OUTPUT
