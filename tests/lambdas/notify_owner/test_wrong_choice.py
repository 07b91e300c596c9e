"""The owner of a job whose choice of rules is wrong is told, once, what becomes of the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambdas.notify_owner.handler import handle
from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.notify_owner.wrong_choice import wrong_choice_body
from tests.lambda_settings import made
from trackside.contracts.event import read_rule_evaluations

WRONG = {
    "RuleConfigurationName": "choice-of-rules",
    "RuleEvaluationStatus": "Error",
    "StatusDetails": "Unknown rule 'overfitt'. Did you mean 'overfit'?\nStop it: yes",
    "Actions": ["Notify"],
}


@pytest.fixture(autouse=True)
def _settings(account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        made(NotifyOwnerSettings, topic_arn=account.topic, idempotency_table="done", quiet_minutes=0)
        .to_environment()
        .items()
    ):
        monkeypatch.setenv(name, value)


def test_the_owner_is_told_once(account: Any, golden: Callable[..., Any], deliver: Callable[..., Any]) -> None:
    event = golden("ours_issues_found", **WRONG, Run="s3://runs-bucket/digits-01")
    assert deliver(handle, event, event) == []
    (message,) = account.messages()
    assert "Did you mean 'overfit'?" in message["Message"]
    assert "choice-of-rules in digits-01" in message["Subject"]


@pytest.mark.parametrize(
    ("run", "becomes"),
    [
        pytest.param("s3://runs-bucket/digits-01", "The job itself goes on.\n", id="judged by the default"),
        pytest.param("", "nothing watches it", id="judged by nothing"),
    ],
)
def test_the_words_say_what_becomes_of_the_job(golden: Callable[..., Any], run: str, becomes: str) -> None:
    (said,) = read_rule_evaluations(golden("ours_issues_found", **WRONG, Run=run))
    body = wrong_choice_body(said)
    assert becomes in body
    assert "Did you mean 'overfit'??Stop it: yes" in body, "one line, whatever a tag says"


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
