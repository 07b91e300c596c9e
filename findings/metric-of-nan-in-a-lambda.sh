#!/usr/bin/env bash
# Powertools writes a metric of NaN as `NaN`, which is no JSON, so that the other metrics of the line are lost with it.
#
# Guess, before the run (50 %): `add_metric` refuses it.
# Seen, aws-lambda-powertools 3.37.0: it refuses text, and lets NaN and infinity pass into the line of the embedded
# metric format, which must be JSON.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check aws-lambda-powertools==3.37.0
cat >"$folder/seen.py" <<'PYTHON'
import json

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit


def refused(word):
    raise ValueError(word)


for value in (0.5, float("nan"), float("inf")):
    metrics = Metrics(namespace="Training", service="loss")
    metrics.add_metric(name="Loss", unit=MetricUnit.NoUnit, value=value)
    metrics.add_metric(name="Steps", unit=MetricUnit.Count, value=1)
    line = json.dumps(metrics.serialize_metric_set())
    metrics.clear_metrics()
    try:
        json.loads(line, parse_constant=refused)
        print(f"a loss of {value}: the line is JSON")
    except ValueError as error:
        print(f"a loss of {value}: the line is no JSON, as it holds {error}")
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
a loss of 0.5: the line is JSON
a loss of nan: the line is no JSON, as it holds NaN
a loss of inf: the line is no JSON, as it holds Infinity
OUTPUT
