"""What arrives on the bus of verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from lambdas.report_custom_rule.handler import handle
from lambdas.report_custom_rule.settings import ReportCustomRuleSettings
from lambdas.shared.clients import client
from trackside.contracts.event import read_rule_evaluations
from trackside.contracts.verdict import Verdict


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    role_arn = "arn:aws:iam::123456789012:role/custom-rule"
    for name, value in ReportCustomRuleSettings(event_bus="trackside", role_arn=role_arn).to_environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bus() -> Iterator[Stubber]:
    with Stubber(client("events")) as stub:
        yield stub
        stub.assert_no_pending_responses()


class Entry:
    """Equal to the entry of one issue, whatever its detail; keeps it."""

    detail: dict[str, Any]

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, list)
        (entry,) = other
        self.detail = json.loads(entry["Detail"])
        shown = {name: entry[name] for name in ("Source", "DetailType", "EventBusName")}
        return shown == {
            "Source": "trackside",
            "DetailType": "Rule Evaluation Status Change",
            "EventBusName": "trackside",
        }

    __hash__ = object.__hash__


def test_what_was_found_is_an_event_that_every_reaction_reads(
    account: Any, bus: Stubber, golden: Callable[..., Any], deliver: Callable[..., Any]
) -> None:
    entry = Entry()
    for _ in range(2):
        bus.add_response("put_events", {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}, {"Entries": entry})
        assert deliver(handle, golden("custom_rule_ended")) == []
    body = boto3.client("s3").get_object(Bucket=account.bucket, Key="digits-01/rule-output/large/verdicts.jsonl")[
        "Body"
    ]
    (verdict,) = [Verdict.from_json(line) for line in body.read().decode().splitlines()]
    assert (verdict.step, verdict.message) == (40, "A gradient is 12.5.")
    (evaluation,) = read_rule_evaluations({"detail-type": "Rule Evaluation Status Change", "detail": entry.detail})
    assert evaluation.found_issues
    assert evaluation.configuration_name == "large"


@pytest.mark.usefixtures("account")
def test_what_the_bus_does_not_take_returns_to_the_queue(
    bus: Stubber, golden: Callable[..., Any], deliver: Callable[..., Any]
) -> None:
    refused = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]}
    bus.add_response("put_events", refused, {"Entries": Entry()})
    bus.add_client_error("put_events", "InternalFailure", "later")
    assert deliver(handle, golden("custom_rule_ended"), golden("custom_rule_ended")) == ["message-0", "message-1"]


def test_a_verdict_that_cannot_be_put_into_the_run_is_not_told_before_it_can(
    account: Any, bus: Stubber, golden: Callable[..., Any], deliver: Callable[..., Any]
) -> None:
    boto3.client("s3").delete_bucket(Bucket=account.bucket)
    assert deliver(handle, golden("custom_rule_ended")) == ["message-0"]


@pytest.mark.usefixtures("bus")
def test_nothing_is_said_of_a_job_of_anybodys(golden: Callable[..., Any], deliver: Callable[..., Any]) -> None:
    assert deliver(handle, golden("custom_rule_ended", RoleArn="arn:aws:iam::123456789012:role/anybody")) == []
