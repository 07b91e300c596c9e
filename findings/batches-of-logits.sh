#!/usr/bin/env bash
# torchmetrics' scores of logits depend on the batches, since each batch decides by itself whether it holds logits.
#
# Guess, before the run (50 %): an AUROC of a thousand rows is the same in batches and at once.
# Seen, torchmetrics 1.9.0: a batch with a value outside of 0 to 1 gets a sigmoid, one without is taken for
# probabilities as it is. Small batches and small logits, as those of a young model, mix both: the order is lost, and
# 0.3 is a negative.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import torch
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC

torch.manual_seed(0)
labels = torch.randint(0, 2, (1000,))
logits = 2.0 * labels - 1 + torch.randn(1000)
for metric in (BinaryAUROC, BinaryAccuracy):
    for size in (1000, 8, 2, 1):
        of_batches = metric()
        for first in range(0, 1000, size):
            of_batches.update(logits[first : first + size], labels[first : first + size])
        print(f"{metric.__name__}, batches of {size}: {of_batches.compute():.3f}")
print(f"the accuracy of logits at 0: {((logits > 0) == labels.bool()).float().mean():.3f}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
BinaryAUROC, batches of 1000: 0.922
BinaryAUROC, batches of 8: 0.922
BinaryAUROC, batches of 2: 0.910
BinaryAUROC, batches of 1: 0.878
BinaryAccuracy, batches of 1000: 0.841
BinaryAccuracy, batches of 8: 0.841
BinaryAccuracy, batches of 2: 0.827
BinaryAccuracy, batches of 1: 0.813
the accuracy of logits at 0: 0.841
OUTPUT
