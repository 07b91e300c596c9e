"""Count the issue in a file of the run."""

from __future__ import annotations

import json

from trackside.contracts.deployment.metrics import ISSUE_METRIC, issue_namespace
from trackside.contracts.event import STATUS_OF_OUTCOME
from trackside.contracts.run_layout import METRICS_KEY, RULE_OUTPUT
from trackside.contracts.verdict import Verdict
from trackside.local.local_twins import ActingRun

VERSION = 1


def carry_out(verdict: Verdict, run: ActingRun) -> None:
    """Append one line to `rule-output/metrics.jsonl`: the metric that CloudWatch would hold (docs/actions.md)."""
    file = run.folder / RULE_OUTPUT / METRICS_KEY
    file.parent.mkdir(exist_ok=True)
    with file.open("ab") as lines:
        lines.write(f"{json.dumps(_metric(verdict))}\n".encode())


def _metric(verdict: Verdict) -> dict[str, object]:
    return {
        "version": VERSION,
        "namespace": issue_namespace(""),
        "metric": ISSUE_METRIC,
        "value": 1,
        "timestamp": verdict.detected_at,
        "dimensions": {
            "TrainingJobName": verdict.run,
            "RuleName": verdict.rule_id,
            "Status": STATUS_OF_OUTCOME[verdict.outcome].value,
        },
    }
