#!/usr/bin/env bash
# river's `ROCAUC` of perfect scores is 1/2 if all are small, as those of a rare event are.
#
# Guess, before the run (45 %): it is 1.
# Seen, river 0.26.1: ten thresholds from 0 to 1 stand for all; scores that lie between two of them are one score.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check river==0.26.1 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import numpy as np
from river import metrics

chance = np.random.default_rng(0)
for largest in (1.0, 0.5, 0.2, 0.1):
    auc = metrics.ROCAUC()
    for _ in range(2000):
        is_positive = bool(chance.random() < 0.05)
        score = largest * (chance.uniform(0.6, 0.9) if is_positive else chance.uniform(0.0, 0.5))
        auc.update(is_positive, {True: score, False: 1 - score})
    print(f"each positive above each negative, scores up to {0.9 * largest:.2f}: ROCAUC {auc.get():.3f}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
each positive above each negative, scores up to 0.90: ROCAUC 1.000
each positive above each negative, scores up to 0.45: ROCAUC 0.985
each positive above each negative, scores up to 0.18: ROCAUC 1.000
each positive above each negative, scores up to 0.09: ROCAUC 0.500
OUTPUT
