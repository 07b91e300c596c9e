from __future__ import annotations

import json
import re
from typing import Any

import pytest


def test_an_event_reaches_its_queue_with_the_whole_envelope(bench: Any) -> None:
    url, arn = bench.queue("envelope")
    bench.rule("envelope", {"source": ["envelope"]}, {"Arn": arn})

    bench.put_event("envelope", {"a": 1}, Resources=["arn:x"])

    event = json.loads(bench.receive(url)[0]["Body"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event.pop("time"))
    assert re.fullmatch(r"[0-9a-f-]{36}", event.pop("id"))
    assert event == {
        "version": "0",
        "detail-type": "test",
        "source": "envelope",
        "account": "123456789012",
        "region": "us-east-1",
        "resources": ["arn:x"],
        "detail": {"a": 1},
    }


def test_only_matching_and_enabled_rules_fire(bench: Any) -> None:
    yes_url, yes = bench.queue("fires")
    no_url, no = bench.queue("silent")
    bench.rule("enabled", {"source": ["choice"], "detail": {"list": {"a": ["x"]}}}, {"Arn": yes})
    bench.rule("disabled", {"source": ["choice"]}, {"Arn": no}, State="DISABLED")
    bench.rule("other", {"source": ["choice"], "detail": {"list": {"a": ["y"]}}}, {"Arn": no})
    bench.account.client("events").put_rule(Name="scheduled", ScheduleExpression="rate(1 minute)")
    bench.account.client("events").put_targets(Rule="scheduled", Targets=[{"Id": "1", "Arn": no}])

    bench.put_event("choice", {"list": [{"a": "w"}, {"a": "x"}]})

    bench.receive(yes_url)
    assert bench.attribute(no_url, "ApproximateNumberOfMessages") == 0
    assert {hop.names["rule"] for hop in bench.account.hops.find("event-matched")} & {"disabled", "other"} == set()


def test_buses_are_apart_and_one_can_feed_another(bench: Any) -> None:
    events = bench.account.client("events")
    hub = events.create_event_bus(Name="hub")["EventBusArn"]
    events.create_event_bus(Name="spoke")
    hub_url, hub_queue = bench.queue("hub")
    default_url, default_queue = bench.queue("default")
    bench.rule("to-hub", {"source": ["travel"]}, {"Arn": hub}, EventBusName="spoke")
    bench.rule("on-hub", {"source": ["travel"]}, {"Arn": hub_queue}, EventBusName="hub")
    bench.rule("on-default", {"source": ["travel"]}, {"Arn": default_queue})

    bench.put_event("travel", {"a": 1}, EventBusName="spoke")

    assert json.loads(bench.receive(hub_url)[0]["Body"])["detail"] == {"a": 1}
    assert bench.attribute(default_url, "ApproximateNumberOfMessages") == 0


def test_a_function_receives_the_input_that_its_rule_makes(bench: Any) -> None:
    arn = bench.function("listener", "import json\ndef handle(e, c): print('GOT', json.dumps(e))")
    transformer = {"InputPathsMap": {"n": "$.detail.n"}, "InputTemplate": '{"number": <n>}'}
    bench.rule(
        "inputs",
        {"source": ["inputs"]},
        {"Arn": arn, "InputTransformer": transformer},
        {"Arn": arn, "InputPath": "$.detail"},
        {"Arn": arn, "Input": '"constant"'},
    )

    bench.put_event("inputs", {"n": 5})

    def got() -> list[str]:
        return sorted(line for line in bench.account.function_log("listener").splitlines() if line.startswith("GOT"))

    bench.eventually(lambda: len(got()) == 3)
    assert got() == ['GOT "constant"', 'GOT {"n": 5}', 'GOT {"number": 5}']


def test_a_topic_and_a_log_group_receive_events(bench: Any) -> None:
    url, queue = bench.queue("behind-topic")
    sns, logs = bench.account.client("sns"), bench.account.client("logs")
    topic = bench.topic("topic")
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)
    logs.create_log_group(logGroupName="/events/all")
    allow = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "logs:PutLogEvents"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [{**allow, "Resource": "*"}]})
    logs.put_resource_policy(policyName="events", policyDocument=policy)
    group = "arn:aws:logs:us-east-1:123456789012:log-group:/events/all"
    bench.rule("both", {"source": ["both"]}, {"Arn": topic}, {"Arn": group})

    bench.put_event("both", {"a": 1})

    notification = json.loads(bench.receive(url)[0]["Body"])
    assert json.loads(notification["Message"])["detail"] == {"a": 1}
    (event,) = bench.eventually(lambda: logs.filter_log_events(logGroupName="/events/all")["events"])
    assert json.loads(event["message"])["detail"] == {"a": 1}


def test_an_archive_keeps_events_and_replays_them(bench: Any) -> None:
    events = bench.account.client("events")
    bus = events.create_event_bus(Name="kept")["EventBusArn"]
    archive = events.create_archive(ArchiveName="kept", EventSourceArn=bus)["ArchiveArn"]
    url, queue = bench.queue("replayed")
    bench.rule("replayed", {"source": ["kept"]}, {"Arn": queue}, EventBusName="kept")
    bench.put_event("kept", {"a": 1}, EventBusName="kept")
    bench.receive(url)

    events.start_replay(
        ReplayName="again",
        EventSourceArn=archive,
        EventStartTime="2020-01-01",
        EventEndTime="2040-01-01",
        Destination={"Arn": bus},
    )

    event = json.loads(bench.receive(url)[0]["Body"])
    assert (event["detail"], event["replay-name"]) == ({"a": 1}, "again")


@pytest.mark.parametrize(
    ("name", "target", "code"),
    [
        pytest.param("no-queue", "arn:aws:sqs:us-east-1:123456789012:nowhere", "NO_RESOURCE", id="missing queue"),
        pytest.param(
            "no-function", "arn:aws:lambda:us-east-1:123456789012:function:none", "NO_RESOURCE", id="missing function"
        ),
        pytest.param("no-topic", "arn:aws:sns:us-east-1:123456789012:none", "SDK_CLIENT_ERROR", id="missing topic"),
        pytest.param("no-service", "arn:aws:ecs:us-east-1:123456789012:cluster/c", "NO_RESOURCE", id="not played here"),
    ],
)
def test_what_cannot_be_delivered_is_in_the_dead_letter_queue_with_the_reason(
    bench: Any, name: str, target: str, code: str
) -> None:
    url, dead_letters = bench.queue(f"dead-{name}")
    good_url, good = bench.queue(f"good-{name}")
    failing = {"Arn": target, "DeadLetterConfig": {"Arn": dead_letters}, "InputPath": "$.detail"}
    rule = bench.rule(name, {"source": [name]}, failing, {"Arn": good})

    bench.put_event(name, {"a": 1})

    (message,) = bench.receive(url)
    assert json.loads(message["Body"])["detail"] == {"a": 1}  # the event, not the target's input
    attributes = {key: value["StringValue"] for key, value in message["MessageAttributes"].items()}
    assert attributes.pop("ERROR_MESSAGE")
    assert attributes == {"RULE_ARN": rule, "TARGET_ARN": target, "ERROR_CODE": code, "RETRY_ATTEMPTS": "0"}
    bench.receive(good_url)
    metrics = bench.account.client("cloudwatch").list_metrics(Namespace="AWS/Events", MetricName="FailedInvocations")
    assert [{"Name": "RuleName", "Value": name}] in [metric["Dimensions"] for metric in metrics["Metrics"]]


def test_a_passing_trouble_is_tried_again(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    url, queue = bench.queue("troubled")
    dead_url, dead_letters = bench.queue("troubled-dead")
    bench.rule("troubled", {"source": ["troubled"]}, {"Arn": queue, "DeadLetterConfig": {"Arn": dead_letters}})
    _break_sends(monkeypatch, to="troubled", times=2)

    bench.put_event("troubled", {"a": 1})

    bench.receive(url)
    assert bench.attribute(dead_url, "ApproximateNumberOfMessages") == 0


def test_a_lasting_trouble_ends_in_the_dead_letter_queue(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, queue = bench.queue("hopeless")
    dead_url, dead_letters = bench.queue("hopeless-dead")
    target = {
        "Arn": queue,
        "DeadLetterConfig": {"Arn": dead_letters},
        "RetryPolicy": {"MaximumRetryAttempts": 1, "MaximumEventAgeInSeconds": 60},
    }
    bench.rule("hopeless", {"source": ["hopeless"]}, target)
    _break_sends(monkeypatch, to="hopeless", times=99)

    bench.put_event("hopeless", {"a": 1})

    (message,) = bench.receive(dead_url)
    assert message["MessageAttributes"]["RETRY_ATTEMPTS"]["StringValue"] == "1"
    assert message["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "SDK_CLIENT_ERROR"


def test_a_function_that_fails_is_lambdas_matter_not_eventbridges(bench: Any) -> None:
    url, dead_letters = bench.queue("functions-own")
    rule_url, rule_dead = bench.queue("rules-own")
    arn = bench.function(
        "broken", "def handle(e, c): raise ValueError('no')", DeadLetterConfig={"TargetArn": dead_letters}
    )
    bench.rule("to-broken", {"source": ["to-broken"]}, {"Arn": arn, "DeadLetterConfig": {"Arn": rule_dead}})

    bench.put_event("to-broken", {"a": 1})

    assert json.loads(bench.receive(url)[0]["Body"])["detail"] == {"a": 1}
    assert len(bench.account.hops.find("lambda", function="broken")) == 3
    assert bench.attribute(rule_url, "ApproximateNumberOfMessages") == 0


def test_a_pattern_that_eventbridge_refuses_is_refused(bench: Any) -> None:
    events = bench.account.client("events")

    with pytest.raises(events.exceptions.InvalidEventPatternException, match="Unrecognized match type prefx"):
        events.put_rule(Name="bad", EventPattern='{"a": [{"prefx": "x"}]}')

    assert events.test_event_pattern(EventPattern='{"a": ["x"]}', Event='{"a": "x"}')["Result"] is True
    assert events.test_event_pattern(EventPattern='{"a": ["x"]}', Event='{"a": "y"}')["Result"] is False


def _break_sends(monkeypatch: pytest.MonkeyPatch, *, to: str, times: int) -> None:
    """The service answers with an error, so many times."""
    from moto.core.exceptions import ServiceException
    from moto.sqs.models import SQSBackend

    send, left = SQSBackend.send_message, [times]

    def broken(backend: Any, queue_name: str, *args: Any, **more: Any) -> Any:
        if queue_name == to and left[0] > 0:
            left[0] -= 1
            raise ServiceException("ServiceUnavailable")
        return send(backend, queue_name, *args, **more)

    monkeypatch.setattr(SQSBackend, "send_message", broken)
