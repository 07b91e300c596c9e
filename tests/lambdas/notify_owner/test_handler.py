"""What arrives in a subscribed queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambdas.notify_owner.handler import handle
from lambdas.notify_owner.settings import NotifyOwnerSettings
from tests.lambda_settings import made


def settle(monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    for name, value in (
        made(NotifyOwnerSettings, topic_arn=topic, idempotency_table="done", quiet_minutes=0).to_environment().items()
    ):
        monkeypatch.setenv(name, value)


def test_one_message_for_three_deliveries(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, account.topic)
    event = golden("ours_issues_found")
    assert deliver(handle, event, event) == []
    assert deliver(handle, event) == []
    (message,) = account.messages()
    assert message["Subject"] == "Trackside: vanishing-gradient in digits-01"
    assert "gradient/Net_fc1.weight of worker_0" in message["Message"]
    assert message["MessageAttributes"]["severity"]["Value"] == "critical"


def test_an_official_event_tells_of_the_rules_that_found_something(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, account.topic)
    assert deliver(handle, golden("official_issues_found"), golden("official_stopped")) == []
    assert [message["Subject"] for message in account.messages()] == ["Trackside: VanishingGradient in digits-01"]


def test_a_missing_topic_returns_the_message_and_remembers_nothing(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, f"{account.topic}-gone")
    assert deliver(handle, golden("ours_issues_found", Actions=["Notify"])) == ["message-0"]
    assert account.remembered() == 0


def test_a_clean_verdict_tells_nothing(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, account.topic)
    assert deliver(handle, golden("ours_issues_found", RuleEvaluationStatus="NoIssuesFound")) == []
    assert account.messages() == []
