"""The CloudWatch metric that says a rule found an issue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lambdas.publish_metric.settings import PublishMetricSettings
from lambdas.shared.asked import reason_not_to
from lambdas.shared.decisions import Nothing
from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluation


@dataclass(frozen=True)
class PublishMetric:
    """Count one issue at `at` (seconds since the epoch; 0: now) under each of these sets of dimensions."""

    dimensions: tuple[Mapping[str, str], ...]
    at: float


def decide(evaluation: RuleEvaluation, settings: PublishMetricSettings) -> PublishMetric | Nothing:
    """Counts the issue for its job and rule, for its rule, so that one alarm can watch all jobs, and for neither, so
    that one alarm can watch all rules."""
    refusal = reason_not_to(Action.PUBLISH_METRIC, evaluation, default_actions=settings.default_actions)
    if refusal:
        return refusal
    rule = evaluation.rule_id or evaluation.configuration_name
    of_all = {"Status": evaluation.status.value}
    of_rule = {"RuleName": rule, **of_all}
    of_job = {"TrainingJobName": evaluation.job.name, **of_rule}
    return PublishMetric((of_job, of_rule, of_all), evaluation.modified_at)
