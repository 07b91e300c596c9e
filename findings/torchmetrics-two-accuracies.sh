#!/usr/bin/env bash
# torchmetrics has two accuracies of classes: `Accuracy(task="multiclass")` and `MulticlassAccuracy` differ.
#
# Guess, before the run (80 %): the first makes the second, with the same defaults.
# Seen, torchmetrics 1.9.0: the first is the share of right samples (micro), the second the mean over classes (macro).
# The same for F1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import torch
from torchmetrics import Accuracy, F1Score
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

predictions, labels = torch.tensor([0, 0, 0, 0, 1]), torch.tensor([0, 0, 0, 0, 2])
for general, special in ((Accuracy, MulticlassAccuracy), (F1Score, MulticlassF1Score)):
    one = general(task="multiclass", num_classes=3)(predictions, labels)
    other = special(num_classes=3)(predictions, labels)
    print(f"{general.__name__}: {one:.3f}, {special.__name__}: {other:.3f}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
Accuracy: 0.800, MulticlassAccuracy: 0.333
F1Score: 0.800, MulticlassF1Score: 0.333
OUTPUT
