"""What the end of a job that ran somebody's rule file may say, and what it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambdas.report_custom_rule.logic import Report, decide
from lambdas.report_custom_rule.settings import ReportCustomRuleSettings
from lambdas.shared.decisions import Nothing
from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.event import RuleEvaluation, RuleEvaluationStatus
from trackside.contracts.verdict import Outcome, Severity

SETTINGS = ReportCustomRuleSettings(event_bus="trackside", role_arn="arn:aws:iam::123456789012:role/custom-rule")
JOB_ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"
MET = "RuleEvaluationConditionMet: Evaluation of the rule large at step 40 resulted in the condition being met."


def decided(golden: Callable[..., Any], **detail: Any) -> RuleEvaluation:
    report = decide(golden("custom_rule_ended", **detail), SETTINGS)
    assert isinstance(report, Report)
    assert report.verdict.message == report.evaluation.details
    return report.evaluation


def test_an_issue_is_of_the_job_that_the_environment_names(golden: Callable[..., Any]) -> None:
    evaluation = decided(golden)
    assert (evaluation.job.name, evaluation.job.arn) == ("digits-01", JOB_ARN)
    assert evaluation.run_uri == "s3://runs-bucket/digits-01"
    assert (evaluation.configuration_name, evaluation.rule_id) == ("large", "LargeGradients")
    assert evaluation.status is RuleEvaluationStatus.ISSUES_FOUND
    assert evaluation.severity is Severity.CRITICAL
    assert evaluation.actions == (Action.STOP_TRAINING, Action.NOTIFY)
    assert evaluation.details == "A gradient is 12.5."
    assert evaluation.evidence.step == 40
    assert evaluation.modified_at == 1795226674
    assert evaluation.evaluation_job_arn.endswith("processing-job/trackside-digits-01-0a1b2c3d4e")


@pytest.mark.parametrize(
    ("detail", "status", "details"),
    [
        pytest.param({"ExitMessage": MET}, "IssuesFound", MET, id="an issue without a word of its own"),
        pytest.param({"ProcessingJobStatus": "Stopped", "ExitMessage": MET}, "IssuesFound", MET, id="stopped after it"),
        pytest.param({"ExitMessage": "No issue found by 1 of 1 rules"}, "NoIssuesFound", "No issue found", id="clean"),
        pytest.param({"ExitMessage": "No rule could judge this run."}, "Error", "No rule could", id="not answered"),
        pytest.param({"ExitMessage": ""}, "Error", "without a word", id="nothing said is not clean"),
        pytest.param({"ProcessingJobStatus": "Failed", "ExitMessage": "mine.py: no"}, "Error", "mine.py", id="failed"),
        pytest.param(
            {"ProcessingJobStatus": "Failed", "ExitMessage": "", "FailureReason": "AlgorithmError: exit code: 137"},
            "Error",
            "137",
            id="killed",
        ),
        pytest.param(
            {"ProcessingJobStatus": "Failed", "ExitMessage": "No issue found by 1"},
            "Error",
            "No issue",
            id="failed, says",
        ),
        pytest.param({"ProcessingJobStatus": "Stopped", "ExitMessage": "Stopped on"}, "Error", "Stopped", id="stopped"),
    ],
)
def test_what_an_end_means(golden: Callable[..., Any], detail: dict[str, Any], status: str, details: str) -> None:
    evaluation = decided(golden, **detail)
    assert evaluation.status.value == status
    assert details in evaluation.details
    assert (evaluation.actions == ()) == (status != "IssuesFound")


@pytest.mark.parametrize(
    ("said", "severity", "actions"),
    [
        pytest.param(" Severity: critical. x", "critical", ("StopTraining", "Notify"), id="critical"),
        pytest.param(" Severity: warning. x", "warning", ("Notify",), id="a warning stops nothing"),
        pytest.param(" Severity: info. x", "info", (), id="nobody is disturbed for what is good to know"),
        pytest.param(" x", "critical", ("StopTraining", "Notify"), id="nothing said, as in SageMaker Debugger"),
        pytest.param(" Severity: grave. x", "critical", ("StopTraining", "Notify"), id="an unknown word"),
    ],
)
def test_only_what_is_critical_stops(
    golden: Callable[..., Any], said: str, severity: str, actions: tuple[str, ...]
) -> None:
    evaluation = decided(golden, ExitMessage=MET + said)
    assert evaluation.severity.value == severity
    assert tuple(action.value for action in evaluation.actions or ()) == actions


@pytest.mark.parametrize(
    "detail",
    [
        pytest.param({"ProcessingJobStatus": "InProgress"}, id="running"),
        pytest.param({"ProcessingJobStatus": "Stopping"}, id="stopping: it may still say something"),
        pytest.param({"RoleArn": "arn:aws:iam::123456789012:role/anybody"}, id="a job of anybody, named like ours"),
        pytest.param({"Environment": {}}, id="no job of ours"),
    ],
)
def test_says_nothing(golden: Callable[..., Any], detail: dict[str, Any]) -> None:
    assert isinstance(decide(golden("custom_rule_ended", **detail), SETTINGS), Nothing)


@pytest.mark.parametrize("step", [pytest.param("9" * 400, id="digits without end"), pytest.param("x", id="no number")])
def test_a_step_that_is_none_is_left_out(golden: Callable[..., Any], step: str) -> None:
    assert decided(golden, ExitMessage=MET.replace("40", step)).evidence.step == 0


def test_an_event_of_another_shape_is_an_error(golden: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match="ProcessingJobName"):
        decide(golden("training_started"), SETTINGS)


def test_the_verdict_lies_in_the_run_beside_the_evaluators(golden: Callable[..., Any]) -> None:
    report = decide(golden("custom_rule_ended"), SETTINGS)
    assert isinstance(report, Report)
    assert (report.bucket, report.key) == ("runs-bucket", "digits-01/rule-output/large/verdicts.jsonl")
    assert report.verdict.outcome is Outcome.ISSUE_FOUND
    assert report.verdict.run == "digits-01"
