"""Issues that are counted: for the job and rule, for the rule, and for all rules; each once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lambdas.notify_owner.handler import handle
from lambdas.notify_owner.issue_count import CountIssue, decide_count
from lambdas.notify_owner.settings import NotifyOwnerSettings
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
SETTINGS = made(NotifyOwnerSettings, idempotency_table="done")
NOW, DAY = ISSUE.modified_at + 60, 24 * 3600
ACROSS = {"RuleName": "vanishing-gradient", "Status": "IssuesFound"}


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
def test_the_line_counts_for_the_job_for_the_rule_and_for_all(evaluation: RuleEvaluation, rule: str) -> None:
    """As CloudWatch's specification of the embedded metric format has it."""
    decision = decide_count(evaluation, SETTINGS, now=NOW)
    assert isinstance(decision, CountIssue)
    line = json.loads(decision.line)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert line["_aws"]["Timestamp"] == 1795226674500
    assert directive["Namespace"] == "Trackside"
    assert directive["Metrics"] == [{"Name": "IssuesFound", "Unit": "Count"}]
    assert [{name: line[name] for name in names} for names in directive["Dimensions"]] == [
        {"TrainingJobName": "digits-01", "RuleName": rule, "Status": "IssuesFound"},
        {"RuleName": rule, "Status": "IssuesFound"},
        {"Status": "IssuesFound"},
    ]
    assert line["IssuesFound"] == 1
    assert "\n" not in decision.line


@pytest.mark.parametrize(
    ("seconds_later", "is_at_its_moment"),
    [
        pytest.param(-3_600, True, id="a clock that goes wrong by an hour"),
        pytest.param(-3 * 3_600, False, id="a clock that goes wrong by three"),
        pytest.param(13 * DAY, True, id="late, after an outage"),
        pytest.param(20 * DAY, False, id="replayed from the archive"),
    ],
)
def test_an_issue_that_is_too_old_or_too_new_for_cloudwatch_counts_now(
    *, seconds_later: int, is_at_its_moment: bool
) -> None:
    now = ISSUE.modified_at + seconds_later
    decision = decide_count(ISSUE, SETTINGS, now=now)
    assert isinstance(decision, CountIssue)
    assert decision.at == (ISSUE.modified_at if is_at_its_moment else now)


@pytest.mark.parametrize(
    "evaluation",
    [
        pytest.param(replace(ISSUE, actions=(Action.NOTIFY,)), id="not asked for"),
        pytest.param(replace(ISSUE, status=RuleEvaluationStatus.NO_ISSUES_FOUND), id="clean"),
    ],
)
def test_nothing_is_counted(evaluation: RuleEvaluation) -> None:
    assert isinstance(decide_count(evaluation, SETTINGS, now=NOW), Nothing)


@pytest.fixture
def count(
    account: Any,
    deliver: Callable[..., list[str]],
    log_lines: Callable[[], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., list[str]]:
    """`count(*events)`: delivers them. Returns the jobs of the counted issues, in order."""
    monkeypatch.setattr("lambdas.notify_owner.handler.time", SimpleNamespace(time=lambda: NOW))
    settings = made(NotifyOwnerSettings, topic_arn=account.topic, idempotency_table="done", quiet_minutes=0)
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)

    def run(*events: Any, failed: int = 0) -> list[str]:
        assert len(deliver(handle, *events)) == failed
        return [line["TrainingJobName"] for line in log_lines() if "IssuesFound" in line]

    return run


def test_an_issue_counts_once_however_often_it_comes(golden: Callable[..., Any], count: Callable[..., Any]) -> None:
    event = golden("ours_issues_found")
    assert count(event, event) == ["digits-01"]
    assert count(event) == []


def test_each_job_is_counted_for_itself(golden: Callable[..., Any], count: Callable[..., Any]) -> None:
    arn = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-02"
    other = golden("ours_issues_found", TrainingJobName="digits-02", TrainingJobArn=arn)
    assert count(golden("ours_issues_found"), other) == ["digits-01", "digits-02"]


@pytest.mark.parametrize(
    ("actions", "counted", "mails"),
    [
        pytest.param(["Notify"], [], 1, id="only a mail"),
        pytest.param(["PublishMetric"], ["digits-01"], 0, id="only a count"),
        pytest.param(["Notify", "PublishMetric"], ["digits-01"], 1, id="both"),
        pytest.param(["StopTraining"], [], 0, id="neither"),
    ],
)
def test_each_rule_gets_the_actions_that_it_asks_for(
    *,
    account: Any,
    golden: Callable[..., Any],
    count: Callable[..., Any],
    actions: list[str],
    counted: list[str],
    mails: int,
) -> None:
    assert count(golden("ours_issues_found", Actions=actions)) == counted
    assert len(account.messages()) == mails


def test_an_issue_is_counted_where_the_owner_cannot_be_notified(
    account: Any, golden: Callable[..., Any], count: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_TOPIC_ARN", f"{account.topic}-gone")
    event = golden("ours_issues_found")
    assert count(event, failed=1) == ["digits-01"]
    assert count(event, failed=1) == []
