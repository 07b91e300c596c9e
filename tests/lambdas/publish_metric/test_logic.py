"""What is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lambdas.publish_metric.logic import PublishMetric, decide
from lambdas.publish_metric.settings import PublishMetricSettings
from lambdas.shared.decisions import Nothing
from tests.lambda_settings import made
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
SETTINGS = made(PublishMetricSettings, idempotency_table="done")
NOW, DAY = ISSUE.modified_at + 60, 24 * 3600


@pytest.mark.parametrize(
    ("evaluation", "rule"),
    [
        pytest.param(ISSUE, "vanishing-gradient", id="ours: the rule, so that one alarm sees all configurations"),
        pytest.param(replace(ISSUE, rule_id="", actions=None), "my gradients", id="official: the name is all there is"),
        pytest.param(replace(ISSUE, rule_id="VerlustÜberall"), "Verlust?berall", id="CloudWatch takes ASCII only"),
        pytest.param(replace(ISSUE, rule_id="a\nb\x1b"), "a?b?", id="and no signs that steer a terminal"),
        pytest.param(replace(ISSUE, rule_id="  "), "?", id="and something"),
        pytest.param(replace(ISSUE, rule_id="x" * 2_000), "x" * 1_024, id="and 1,024 characters"),
    ],
)
def test_counts_for_the_job_across_jobs_and_across_rules(evaluation: RuleEvaluation, rule: str) -> None:
    assert decide(evaluation, SETTINGS, now=NOW) == PublishMetric(
        dimensions=(
            {"TrainingJobName": "digits-01", "RuleName": rule, "Status": "IssuesFound"},
            {"RuleName": rule, "Status": "IssuesFound"},
            {"Status": "IssuesFound"},
        ),
        at=1795226674.5,
    )


@pytest.mark.parametrize(
    ("seconds_later", "is_at_its_moment"),
    [
        pytest.param(-3_600, True, id="a clock that goes wrong by an hour"),
        pytest.param(-3 * 3_600, False, id="a clock that goes wrong by three"),
        pytest.param(13 * DAY, True, id="late, after an outage"),
        pytest.param(20 * DAY, False, id="replayed from the archive"),
    ],
)
def test_what_is_too_old_or_too_new_for_cloudwatch_counts_now(*, seconds_later: int, is_at_its_moment: bool) -> None:
    decision = decide(ISSUE, SETTINGS, now=ISSUE.modified_at + seconds_later)
    assert isinstance(decision, PublishMetric)
    assert decision.at == (ISSUE.modified_at if is_at_its_moment else 0)


@pytest.mark.parametrize(
    "evaluation",
    [
        pytest.param(replace(ISSUE, actions=(Action.NOTIFY,)), id="not asked for"),
        pytest.param(replace(ISSUE, status=RuleEvaluationStatus.NO_ISSUES_FOUND), id="clean"),
    ],
)
def test_counts_nothing(evaluation: RuleEvaluation) -> None:
    assert isinstance(decide(evaluation, SETTINGS, now=NOW), Nothing)
