#!/usr/bin/env bash
# An infinite loss logged to MLflow is a finite number in its SQLite store, and of two values of one step the larger stays.
#
# Guesses, before the run: infinity is read back as infinity (75 %); a run's newest value is the one that was logged last
# (85 %).
# Seen, mlflow-skinny 3.17.2: from SQLite infinity comes back as 1.7976931348623157e+308 (from files as infinity, and NaN
# as NaN from both); of two values with the same step and time the larger counts, in either order, and a value of an
# earlier step never replaces one of a later step.
# Who asks a store "is the loss finite?" hears yes of a run that diverged.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mlflow-skinny==3.17.2 sqlalchemy==2.1.9 alembic==1.20.1
cat >"$folder/seen.py" <<'PYTHON'
import math
import os

import mlflow

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
for address in ("sqlite:///runs.db", "file:runs"):
    mlflow.set_tracking_uri(address)
    client = mlflow.MlflowClient()
    run = client.create_run("0" if address.startswith("file") else client.create_experiment("runs")).info.run_id
    client.log_metric(run, "infinite", math.inf, timestamp=1000, step=1)
    client.log_metric(run, "nan", math.nan, timestamp=1000, step=1)
    for value in (2.0, 1.0):
        client.log_metric(run, "same step", value, timestamp=1000, step=1)
    client.log_metric(run, "earlier step last", 5.0, timestamp=1000, step=5)
    client.log_metric(run, "earlier step last", 1.0, timestamp=2000, step=3)
    print(address.split(":")[0], dict(sorted(client.get_run(run).data.metrics.items())))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
sqlite {'earlier step last': 5.0, 'infinite': 1.7976931348623157e+308, 'nan': nan, 'same step': 2.0}
file {'earlier step last': 5.0, 'infinite': inf, 'nan': nan, 'same step': 2.0}
OUTPUT
