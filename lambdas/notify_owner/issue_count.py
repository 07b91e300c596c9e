"""The count of an issue: the CloudWatch metric `IssuesFound`, as a line of the log.

CloudWatch reads the metric from the line (embedded metric format), so no call can be refused, throttled or lost.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.shared.action_requests import reason_not_to
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.once import once
from lambdas.shared.plain import ascii_only
from trackside.contracts.action import Action
from trackside.contracts.deployment.metrics import ISSUE_METRIC
from trackside.contracts.event import RuleEvaluation

# A moment of the last two weeks, or of the next two hours. An hour is kept for the way to CloudWatch.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
MOST_AGE_SECONDS, MOST_AHEAD_SECONDS = (14 * 24 - 1) * 3600, 3600 + 1
MOST_VALUE_CHARACTERS = 1024  # API_Dimension; ASCII, and not blank


@dataclass(frozen=True)
class CountIssue:
    """The decision to count one issue.

    - `namespace`: of the metric
    - `dimensions`: all dimensions, the broadest last: of the job, of the rule, of the status
    - `at`: moment of the issue in seconds since the epoch
    """

    namespace: str
    dimensions: Mapping[str, str]
    at: float

    @property
    def line(self) -> str:
        """The line of the log that counts the issue for the job and rule, for the rule, and for all rules."""
        names = list(self.dimensions)
        directive = {
            "Namespace": self.namespace,
            "Dimensions": [names[first:] for first in range(len(names))],
            "Metrics": [{"Name": ISSUE_METRIC, "Unit": "Count"}],
        }
        about = {"Timestamp": round(1000 * self.at), "CloudWatchMetrics": [directive]}
        return json.dumps({"_aws": about, **self.dimensions, ISSUE_METRIC: 1})


def decide_count(evaluation: RuleEvaluation, settings: NotifyOwnerSettings, *, now: float) -> CountIssue | Nothing:
    """Return the count of the issue, if it is asked for. Raise nothing for any event.

    A job and a rule have a metric of their own. One alarm can watch a rule in all jobs, or all rules.
    """
    refusal = reason_not_to(Action.PUBLISH_METRIC, evaluation, default_actions=settings.default_actions)
    if refusal:
        return refusal
    dimensions = {
        "TrainingJobName": _value(evaluation.job.name),
        "RuleName": _value(evaluation.rule_id or evaluation.configuration_name),
        "Status": evaluation.status.value,
    }
    at = evaluation.modified_at
    is_taken = -MOST_AHEAD_SECONDS < now - at < MOST_AGE_SECONDS
    return CountIssue(settings.namespace, dimensions, at if is_taken else now)


def count_once(
    evaluation: RuleEvaluation, *, settings: NotifyOwnerSettings, context: LambdaContext, now: float
) -> Iterator[Done | Nothing]:
    """Count the issue, unless an earlier delivery did."""
    decision = decide_count(evaluation, settings, now=now)
    if isinstance(decision, Nothing):
        yield decision
        return
    act = partial(_write, decision)
    yield once(Action.PUBLISH_METRIC, evaluation, act, table=settings.idempotency_table, context=context)


def _write(issue: CountIssue) -> Done:
    sys.stdout.write(f"{issue.line}\n")
    return Done(f"Counted the issue: {dict(issue.dimensions)}.")


def _value(text: str) -> str:
    return ascii_only(text)[:MOST_VALUE_CHARACTERS].strip() or "?"
