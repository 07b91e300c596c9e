"""What is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lambdas.publish_metric.logic import PublishMetric, decide
from lambdas.publish_metric.settings import PublishMetricSettings
from lambdas.shared.decisions import Nothing
from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluation, RuleEvaluationStatus, TrainingJob

ISSUE = RuleEvaluation(
    job=TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"),
    configuration_name="my gradients",
    rule_id="vanishing-gradient",
    status=RuleEvaluationStatus.ISSUES_FOUND,
    details="",
    actions=(Action.PUBLISH_METRIC,),
    modified_at=1795226674.5,
)
SETTINGS = PublishMetricSettings(idempotency_table="done")


@pytest.mark.parametrize(
    ("evaluation", "rule"),
    [
        pytest.param(ISSUE, "vanishing-gradient", id="ours: the rule, so that one alarm sees all configurations"),
        pytest.param(replace(ISSUE, rule_id="", actions=None), "my gradients", id="official: the name is all there is"),
    ],
)
def test_counts_for_the_job_across_jobs_and_across_rules(evaluation: RuleEvaluation, rule: str) -> None:
    assert decide(evaluation, SETTINGS) == PublishMetric(
        dimensions=(
            {"TrainingJobName": "digits-01", "RuleName": rule, "Status": "IssuesFound"},
            {"RuleName": rule, "Status": "IssuesFound"},
            {"Status": "IssuesFound"},
        ),
        at=1795226674.5,
    )


@pytest.mark.parametrize(
    "evaluation",
    [
        pytest.param(replace(ISSUE, actions=(Action.NOTIFY,)), id="not asked for"),
        pytest.param(replace(ISSUE, status=RuleEvaluationStatus.NO_ISSUES_FOUND), id="clean"),
    ],
)
def test_counts_nothing(evaluation: RuleEvaluation) -> None:
    assert isinstance(decide(evaluation, SETTINGS), Nothing)
