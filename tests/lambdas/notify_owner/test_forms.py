"""One message in the form of each protocol."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambdas.notify_owner.ended_evaluations import read_unjudged
from lambdas.notify_owner.forms import document_of, message_structure, short_text, slack_text
from lambdas.notify_owner.handler import handle
from lambdas.notify_owner.settings import NotifyOwnerSettings
from tests.lambda_settings import made
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.event import RuleEvaluation, RuleEvaluationStatus, TrainingJob

EVALUATION = RuleEvaluation(
    job=TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"),
    configuration_name="overfit",
    status=RuleEvaluationStatus.ISSUES_FOUND,
    details="The gap is 0.4.",
)


def test_a_short_text_says_what_and_where() -> None:
    assert short_text(EVALUATION) == "Trackside: overfit in digits-01: The gap is 0.4."


@given(st.text(), st.text(max_size=300), st.text())
def test_a_short_text_fits_one_sms_whatever_the_names(rule: str, job: str, details: str) -> None:
    text = short_text(replace(EVALUATION, configuration_name=rule, job=TrainingJob(job, ""), details=details))
    assert len(text) <= 140
    assert text.isascii()
    assert text.isprintable()


def test_people_read_and_machines_parse() -> None:
    forms = json.loads(message_structure(body="to read", short="sms", document=document_of(EVALUATION, text="subject")))
    assert forms["default"] == forms["email"] == "to read"
    assert forms["sms"] == "sms"
    for protocol in ("sqs", "https", "http", "lambda"):
        document = json.loads(forms[protocol])
        assert (document["job"], document["rule"], document["version"]) == ("digits-01", "overfit", 1)


@pytest.mark.parametrize(
    ("said", "others"),
    [
        pytest.param(
            replace(EVALUATION, details="\U0001f682" * 1024, what_to_do=("\U0001f682" * 500,) * 5), (), id="signs"
        ),
        pytest.param(replace(EVALUATION, what_to_do=("x" * 50_000,)), (), id="long advice"),
        pytest.param(EVALUATION, ("\u8eca" * 250 + "@1",) * 200, id="a rule of a long name that flickers"),
    ],
)
def test_a_message_fits_whatever_it_says(said: RuleEvaluation, others: tuple[str, ...]) -> None:
    body = f"{said.details} {said.what_to_do} {others[:10]}"
    document = document_of(said, text="subject", message=body, others=others)
    message = message_structure(body=body, short="sms", document=document)
    assert len(message.encode()) <= 250 * 1024  # API_Publish: 256 KB, with the attributes
    forms = json.loads(message)
    assert forms["sms"] == "sms"
    assert body.startswith(forms["email"][:1000])
    assert json.loads(forms["sqs"])["job"] == "digits-01"


def settle(monkeypatch: pytest.MonkeyPatch, account: Any, **changes: Any) -> None:
    settings = made(
        NotifyOwnerSettings, **{"topic_arn": account.topic, "idempotency_table": "done", "quiet_minutes": 0, **changes}
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)


def test_a_run_that_nothing_judged_is_told_once(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, account)
    event = golden("custom_rule_ended", ExitMessage="No rule could judge this run. Not evaluated: overfit.")
    assert deliver(handle, event, event) == []
    (message,) = account.messages()
    assert message["Subject"] == "Trackside: NOT judged: digits-01"
    assert "Not evaluated: overfit." in json.loads(message["Message"])["message"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"Environment": {}}, id="no training job"),
        pytest.param({"Environment": "x"}, id="no environment"),
        pytest.param({"ProcessingJobName": 7}, id="no name"),
    ],
)
def test_a_processing_job_that_is_none_of_ours_is_poison(golden: Callable[..., Any], change: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        read_unjudged(golden("custom_rule_ended", **change))


def test_webhooks_are_told_by_the_bus_once(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = boto3.client("events")
    events.create_event_bus(Name="trackside")
    events.put_rule(Name="r", EventBusName="trackside", EventPattern='{"source": ["trackside"]}')
    arn = "arn:aws:sqs:us-east-1:123456789012:hooks"
    url = boto3.client("sqs").create_queue(QueueName="hooks")["QueueUrl"]
    events.put_targets(Rule="r", EventBusName="trackside", Targets=[{"Id": "1", "Arn": arn}])
    settle(monkeypatch, account, event_bus="trackside")
    event = golden("ours_issues_found")
    assert deliver(handle, event, event) == []
    found = boto3.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    (told,) = [json.loads(message["Body"]) for message in found]
    assert told["detail-type"] == "Owner Notification"
    assert told["detail"]["text"].startswith("Trackside: vanishing-gradient in digits-01\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("<!channel> look", "&lt;!channel&gt; look", id="a call to everybody"),
        pytest.param("<https://a.b|log in>", "&lt;https://a.b|log in&gt;", id="a link under another name"),
        pytest.param("a & b &lt; c", "a &amp; b &amp;lt; c", id="what is escaped already"),
        pytest.param("loss 2.5 in fc1.weight", "loss 2.5 in fc1.weight", id="plain"),
    ],
)
def test_in_slack_words_have_no_other_meaning(text: str, shown: str) -> None:
    assert slack_text(text) == shown


def test_a_bus_that_is_not_there_returns_the_message_and_the_mail_is_not_sent_again(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, account, event_bus="gone")
    event = golden("ours_issues_found")
    assert deliver(handle, event) == ["message-0"]
    assert deliver(handle, event) == ["message-0"]
    assert len(account.messages()) == 1
