"""The CloudWatch metric of issues that rules found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lambdas.publish_metric.settings import PublishMetricSettings
from lambdas.shared.action_requests import reason_not_to
from lambdas.shared.decisions import Nothing
from lambdas.shared.plain import ascii_only
from trackside.contracts.action import Action
from trackside.contracts.deployment.metrics import ISSUE_METRIC
from trackside.contracts.event import RuleEvaluation

# API_MetricDatum: a moment of the last two weeks, or of the next two hours. An hour is kept for the way there.
MOST_AGE_SECONDS, MOST_AHEAD_SECONDS = (14 * 24 - 1) * 3600, 3600 + 1
MOST_VALUE_CHARACTERS = 1024  # API_Dimension; ASCII, and not blank


@dataclass(frozen=True)
class PublishMetric:
    """One issue to count at `at` (seconds since the epoch; 0: now) under each of these sets of dimensions."""

    dimensions: tuple[Mapping[str, str], ...]
    at: float

    @property
    def data(self) -> list[dict[str, Any]]:
        """The metric data in the form of PutMetricData."""
        datum = {"MetricName": ISSUE_METRIC, "Value": 1, "Unit": "Count", **({"Timestamp": self.at} if self.at else {})}
        return [
            {**datum, "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()]}
            for dimensions in self.dimensions
        ]


def decide(evaluation: RuleEvaluation, settings: PublishMetricSettings, *, now: float) -> PublishMetric | Nothing:
    """Return the metric of the issue for three sets of dimensions.

    - job and rule
    - the rule, so that one alarm can watch all jobs
    - none, so that one alarm can watch all rules

    Raises nothing for any event: CloudWatch would refuse a bad one each time.
    """
    refusal = reason_not_to(Action.PUBLISH_METRIC, evaluation, default_actions=settings.default_actions)
    if refusal:
        return refusal
    rule = _value(evaluation.rule_id or evaluation.configuration_name)
    of_all = {"Status": evaluation.status.value}
    of_rule = {"RuleName": rule, **of_all}
    of_job = {"TrainingJobName": _value(evaluation.job.name), **of_rule}
    at = evaluation.modified_at
    return PublishMetric((of_job, of_rule, of_all), at if -MOST_AHEAD_SECONDS < now - at < MOST_AGE_SECONDS else 0)


def _value(text: str) -> str:
    return ascii_only(text)[:MOST_VALUE_CHARACTERS].strip() or "?"
