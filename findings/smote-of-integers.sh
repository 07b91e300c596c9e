#!/usr/bin/env bash
# SMOTE turns the fractions between two rows back into the type of the column: a flag of type bool is then nearly always
# set.
#
# Guess, before the run (50 %): made rows have fractions, whatever the type.
# Seen, imbalanced-learn 0.14.2 with scikit-learn 1.9.1 and pandas 3.1.1: each fraction of a bool is True, each of an
# integer is cut off downwards, without a warning. A model learns that the rare class has, or lacks, the flag.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check imbalanced-learn==0.14.2 scikit-learn==1.9.1 pandas==3.1.1 numpy==2.4.6
cat >"$folder/seen.py" <<'PYTHON'
import numpy as np
import pandas
from imblearn.over_sampling import SMOTE

chance = np.random.default_rng(0)
labels = (np.arange(1000) < 100).astype(int)
flag = chance.random(1000) < 0.3
price = 10 * chance.normal(size=1000)
for kind in ("bool", "int", "float"):
    table = pandas.DataFrame({"flag": flag.astype(kind), "price": price})
    rows, classes = SMOTE(random_state=0).fit_resample(table, labels)
    made = rows[classes == 1][100:].flag
    print(f"{kind}: flag set in real rows {table[labels == 1].flag.mean():.2f}, in made rows {made.mean():.2f}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
bool: flag set in real rows 0.25, in made rows 0.34
int: flag set in real rows 0.25, in made rows 0.09
float: flag set in real rows 0.25, in made rows 0.22
OUTPUT
