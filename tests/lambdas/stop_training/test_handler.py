"""Deliveries as they come: duplicated, late, of either shape, refused and broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.stub import Stubber

from lambdas.stop_training.handler import handle
from lambdas.stop_training.settings import StopTrainingSettings
from trackside.contracts.action import Action

JOB = {"TrainingJobName": "digits-01"}
Golden = Callable[..., dict[str, Any]]
Deliver = Callable[..., list[str]]


def settle(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    settings = StopTrainingSettings(idempotency_table="done", **changes)
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)


def test_stops_the_job_once_for_three_deliveries(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    sagemaker.add_response("stop_training_job", {}, JOB)
    event = golden("ours_issues_found")
    assert deliver(handle, event, event) == []
    assert deliver(handle, event) == []
    assert account.remembered() == 1


def test_another_rule_of_the_same_job_stops_it_too(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    sagemaker.add_response("stop_training_job", {}, JOB)
    sagemaker.add_client_error(
        "stop_training_job",
        "ValidationException",
        "The request was rejected because the training job is in status Stopping.",
        expected_params=JOB,
    )
    assert deliver(handle, golden("ours_issues_found")) == []
    assert deliver(handle, golden("ours_issues_found", RuleConfigurationName="exploding-tensor")) == []
    assert account.remembered() == 2


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("The request was rejected because the training job is in status Stopped.", id="already stopped"),
        pytest.param("Requested resource not found.", id="no such job"),
    ],
)
@pytest.mark.usefixtures("account")
def test_a_job_that_cannot_be_stopped_any_more_is_no_failure(
    sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    settle(monkeypatch)
    sagemaker.add_client_error("stop_training_job", "ValidationException", message, expected_params=JOB)
    assert deliver(handle, golden("ours_issues_found")) == []


def test_throttling_returns_the_message_and_the_next_delivery_stops(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    sagemaker.add_client_error("stop_training_job", "ThrottlingException", "Rate exceeded", expected_params=JOB)
    sagemaker.add_response("stop_training_job", {}, JOB)
    event = golden("ours_issues_found")
    assert deliver(handle, event) == ["message-0"]
    assert account.remembered() == 0
    assert deliver(handle, event) == []


def test_one_bad_message_does_not_hold_back_its_neighbours(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    sagemaker.add_response("stop_training_job", {}, JOB)
    unreadable = golden("ours_issues_found", RuleEvaluationStatus="Perhaps")
    failed = deliver(handle, "not json", "[]", "{}", unreadable, golden("ours_issues_found"))
    assert failed == ["message-0", "message-1", "message-2", "message-3"]


def test_an_official_event_stops_only_where_the_deployment_says_so(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    assert deliver(handle, golden("official_issues_found")) == []
    assert account.remembered() == 0
    settle(monkeypatch, default_actions=(Action.STOP_TRAINING,))
    sagemaker.add_response("stop_training_job", {}, JOB)
    assert deliver(handle, golden("official_issues_found"), golden("official_stopped")) == []
    assert account.remembered() == 1


def test_the_end_of_a_job_that_overtakes_its_issue_stops_nothing(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, default_actions=(Action.STOP_TRAINING,))
    assert deliver(handle, golden("official_stopped")) == []
    assert account.remembered() == 0


def test_a_dry_run_stops_and_remembers_nothing(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, dry_run=True)
    assert deliver(handle, golden("ours_issues_found")) == []
    assert account.remembered() == 0


def test_a_function_without_its_settings_loses_no_message(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver
) -> None:
    assert deliver(handle, golden("ours_issues_found")) == ["message-0"]
