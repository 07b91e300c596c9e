"""The CloudWatch metric that says a rule found an issue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lambdas.publish_metric.settings import PublishMetricSettings
from lambdas.shared.asked import reason_not_to
from lambdas.shared.decisions import Nothing
from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluation

METRIC_NAME = "IssuesFound"


@dataclass(frozen=True)
class PublishMetric:
    """Count one issue at `at` (seconds since the epoch; 0: now) under each of these sets of dimensions."""

    dimensions: tuple[Mapping[str, str], ...]
    at: float


def decide(evaluation: RuleEvaluation, settings: PublishMetricSettings) -> PublishMetric | Nothing:
    """Counts the issue twice: for its job, and without the job, so that one alarm can watch all jobs."""
    refusal = reason_not_to(Action.PUBLISH_METRIC, evaluation, default_actions=settings.default_actions)
    if refusal:
        return refusal
    rule = evaluation.rule_id or evaluation.configuration_name
    across_jobs = {"RuleName": rule, "Status": evaluation.status.value}
    return PublishMetric(({"TrainingJobName": evaluation.job.name, **across_jobs}, across_jobs), evaluation.modified_at)
