"""The owner of a job whose choice of rules is wrong is told, once, what becomes of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambdas.notify_owner.handler import handle
from lambdas.notify_owner.settings import NotifyOwnerSettings

WRONG = {
    "RuleConfigurationName": "choice-of-rules",
    "RuleEvaluationStatus": "Error",
    "StatusDetails": "Unknown rule 'overfitt'. Did you mean 'overfit'?\nStop it: yes",
    "Actions": ["Notify"],
}


@pytest.fixture(autouse=True)
def _settings(account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NotifyOwnerSettings(topic_arn=account.topic, idempotency_table="done").to_environment().items():
        monkeypatch.setenv(name, value)


def test_the_owner_is_told_once(account: Any, golden: Callable[..., Any], deliver: Callable[..., Any]) -> None:
    event = golden("ours_issues_found", **WRONG, Run="s3://runs-bucket/digits-01")
    assert deliver(handle, event, event) == []
    (message,) = (each for each in account.messages() if not each["Message"].startswith("{"))
    assert "Did you mean 'overfit'??Stop it: yes" in message["Message"], "one line, whatever a tag says"
    assert "The job itself goes on.\n" in message["Message"]
    assert "choice-of-rules in digits-01" in message["Subject"]


def test_it_says_if_nothing_watches_the_job(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any]
) -> None:
    assert deliver(handle, golden("ours_issues_found", **WRONG, Run="")) == []
    (message,) = (each for each in account.messages() if not each["Message"].startswith("{"))
    assert "nothing watches it" in message["Message"]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"RuleConfigurationName": "overfit"}, id="a rule that could not judge"),
        pytest.param({"RuleEvaluationStatus": "NoIssuesFound"}, id="nothing is wrong"),
    ],
)
def test_of_other_statuses_nobody_is_told(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], changed: dict[str, str]
) -> None:
    assert deliver(handle, golden("ours_issues_found", **{**WRONG, **changed})) == []
    assert account.messages() == []
