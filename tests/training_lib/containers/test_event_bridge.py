"""Events really arrive behind a rule on the bus; refused ones are tried again, then reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from trackside.containers.event_bridge import MOST_BYTES, EventBridgeSink, EventOrigin
from trackside.contracts.action import Action
from trackside.contracts.event import DETAIL_TYPE, SOURCE, TrainingJob, read_rule_evaluations
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
from trackside.evaluation.sinks.sink import UndeliveredError

JOB = TrainingJob("digits", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits")
ORIGIN = EventOrigin(JOB, "s3://runs/digits", "arn:aws:sagemaker:us-east-1:123456789012:processing-job/judge")


def verdict(name: str = "a", *, subject: str = "gradient/Net_fc1.weight", statistics: int = 0) -> Verdict:
    found = Finding(
        subject,
        20,
        10,
        "mean |gradient|",
        1e-12,
        "<",
        1e-7,
        statistics={f"statistic_{i}": 0.5 for i in range(statistics)},
        series=((10, 1e-9), (20, 1e-12)),
    )
    return Verdict(
        "digits",
        "vanishing-gradient",
        name,
        Outcome.ISSUE_FOUND,
        Severity.CRITICAL,
        20,
        "Gradients vanish.",
        1.5,
        findings=(found,),
        affected=1,
        actions=(Action.STOP_TRAINING,),
        tensor_key="debug-output/events/x",
    )


class Scripted:
    """A client that answers as it is told, then takes everything. Its answers are shaped like EventBridge's."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[list[dict[str, str]]] = []

    def put_events(self, *, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803 - boto3's name
        self.requests.append(Entries)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        failed = answer or []
        entries = [
            {"ErrorCode": "InternalFailure", "ErrorMessage": "try again"} if i in failed else {"EventId": str(i)}
            for i in range(len(Entries))
        ]
        return {"FailedEntryCount": len(failed), "Entries": entries}


def sink(client: Any, slept: list[float] | None = None) -> EventBridgeSink:
    return EventBridgeSink(client, bus="trackside", origin=ORIGIN, sleep=(slept if slept is not None else []).append)


def throttled() -> ClientError:
    return ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "PutEvents")


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any, str]]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        session = boto3.session.Session(region_name="us-east-1")
        events, queues = session.client("events"), session.client("sqs")
        url = queues.create_queue(QueueName="arrived")["QueueUrl"]
        arn = queues.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        events.create_event_bus(Name="trackside")
        pattern = {
            "source": [SOURCE],
            "detail-type": [DETAIL_TYPE],
            "detail": {"RuleEvaluationStatus": ["IssuesFound"]},
        }
        events.put_rule(Name="issues", EventBusName="trackside", EventPattern=json.dumps(pattern))
        events.put_targets(Rule="issues", EventBusName="trackside", Targets=[{"Id": "q", "Arn": arn}])
        yield events, queues, url


def test_an_issue_arrives_behind_the_rule_as_it_was_sent(account: tuple[Any, Any, str]) -> None:
    events, queues, url = account
    clean = Verdict("digits", "x", "x", Outcome.CLEAN, Severity.INFO, 3, "All is well.", 1.5)
    sink(events).emit([verdict(), clean])
    messages = queues.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    (arrived,) = [read_rule_evaluations(json.loads(message["Body"]))[0] for message in messages]
    assert arrived.job == JOB
    assert arrived.found_issues
    assert arrived.actions == (Action.STOP_TRAINING,)
    assert arrived.run_uri == "s3://runs/digits"
    assert arrived.evaluation_job_arn.endswith("processing-job/judge")
    assert arrived.evidence.tensor_uri == "s3://runs/digits/debug-output/events/x"
    assert arrived.evidence.series == ((10, 1e-9), (20, 1e-12))


def test_throttled_for_good_is_undelivered_and_names_the_bus() -> None:
    with pytest.raises(UndeliveredError, match=r"'trackside'.*Rate exceeded") as caught:
        sink(Scripted(*[throttled()] * 9)).emit([verdict()])
    assert caught.value.undelivered == (verdict(),)


def test_only_refused_entries_are_sent_again() -> None:
    client, slept = Scripted([1], [0]), list[float]()
    sink(client, slept).emit([verdict("a"), verdict("b"), verdict("c")])
    names = [[json.loads(e["Detail"])["RuleConfigurationName"] for e in request] for request in client.requests]
    assert names == [["a", "b", "c"], ["b"], ["b"]]
    assert len(slept) == 2
    assert slept[1] > slept[0]


@pytest.mark.parametrize("error", [throttled(), EndpointConnectionError(endpoint_url="http://bus")])
def test_throttling_and_lost_connections_are_tried_again(error: Exception) -> None:
    client, slept = Scripted(error, error), list[float]()
    sink(client, slept).emit([verdict()])
    assert len(client.requests) == 3


def test_what_stays_refused_is_undelivered_with_the_reason() -> None:
    client, slept = Scripted(*[[1]] * 1, *[[0]] * 3), list[float]()
    with pytest.raises(UndeliveredError, match="InternalFailure: try again") as caught:
        sink(client, slept).emit([verdict("a"), verdict("b")])
    assert [v.configuration_name for v in caught.value.undelivered] == ["b"]
    assert len(client.requests) == 4


def test_ten_entries_a_request() -> None:
    client = Scripted()
    sink(client).emit([verdict(str(i)) for i in range(23)])
    assert [len(request) for request in client.requests] == [10, 10, 3]


def size(request: list[dict[str, str]]) -> int:
    return sum(len(e["Source"].encode()) + len(e["DetailType"].encode()) + len(e["Detail"].encode()) for e in request)


def test_a_request_stays_below_the_limit_on_bytes() -> None:
    client = Scripted()
    sink(client).emit([verdict(str(i), statistics=4000) for i in range(6)])
    assert sum(len(request) for request in client.requests) == 6
    assert 1 < len(client.requests) <= 6
    assert all(size(request) <= MOST_BYTES for request in client.requests)


def test_evidence_that_is_too_large_stays_behind_and_the_alarm_goes_out() -> None:
    client = Scripted()
    sink(client).emit([verdict(subject="é" * 200_000)])
    ((entry,),) = client.requests
    assert size([entry]) <= MOST_BYTES
    detail = json.loads(entry["Detail"])
    assert detail["RuleEvaluationStatus"] == "IssuesFound"
    assert detail["Actions"] == ["StopTraining"]
    assert (detail["Evidence"]["Step"], detail["Evidence"]["SinceStep"]) == (20, 10)
