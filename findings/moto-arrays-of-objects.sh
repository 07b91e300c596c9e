#!/usr/bin/env bash
# moto's rules of EventBridge see into no array of objects, and take 1 for true.
#
# Guess, before the run (35 %): each documented pattern matches as documented.
# Seen, moto 5.2.5: operators and arrays of texts do. EventBridge matches an object within an array, if one object holds
# all parts, and compares JSON's values exactly; by moto a rule on the findings of a verdict never fires in a test.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check moto[events]==5.2.5
cat >"$folder/seen.py" <<'PYTHON'
import json

from moto.events.models import EventPattern


def matches(pattern, detail):
    event = {
        "version": "0", "id": "1", "source": "training", "detail-type": "Verdict", "account": "1", "resources": [],
        "region": "eu-west-1", "time": "2026-11-30T00:00:00Z", "detail": detail,
    }
    return EventPattern.load(json.dumps({"detail": pattern})).matches_event(event)


findings = {"findings": [{"rule": "overfit", "severity": "warning"}, {"rule": "nan", "severity": "critical"}]}
print("an object of the array matches:", matches({"findings": {"rule": ["nan"], "severity": ["critical"]}}, findings))
print("parts of two objects match:", matches({"findings": {"rule": ["nan"], "severity": ["warning"]}}, findings))
print("1 matches true:", matches({"stopped": [True]}, {"stopped": 1}))
print("true matches 1:", matches({"step": [1]}, {"step": True}))
print("an array of texts matches one of them:", matches({"rules": ["nan"]}, {"rules": ["overfit", "nan"]}))
PYTHON
(cd "$folder" && "$folder/venv/bin/python" "$folder/seen.py" >"$folder/output" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
cat "$folder/output"
diff "$folder/output" - <<'OUTPUT'
an object of the array matches: False
parts of two objects match: False
1 matches true: True
true matches 1: True
an array of texts matches one of them: True
OUTPUT
