"""Every hop has a queue, a place for what fails, and an alarm on it: a walk over all rules, functions and queues."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def of_type(resources: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {name: body["Properties"] for name, body in resources.items() if body["Type"] == kind}


def named(value: Any) -> Iterator[str]:
    """Every logical id, or output of one, that a value refers to."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "Ref":
                yield str(inner)
            elif key == "Fn::GetStackOutput":
                yield str(inner["OutputName"])
            elif key == "Fn::GetAtt":
                yield str(inner[0])
            else:
                yield from named(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from named(inner)


def queues(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Logical id -> properties."""
    return {name.split("/")[1]: body for name, body in of_type(resources, "AWS::SQS::Queue").items()}


def test_every_target_of_every_rule_keeps_what_it_cannot_deliver(resources: Mapping[str, Any]) -> None:
    known = queues(resources)
    rules = of_type(resources, "AWS::Events::Rule")
    assert rules
    for name, rule in rules.items():
        assert rule["Targets"], name
        for target in rule["Targets"]:
            (letters,) = named(target["DeadLetterConfig"]["Arn"])
            assert letters in known, name
            assert known[letters]["MessageRetentionPeriod"] == 14 * 24 * 3600


def test_every_function_is_called_by_a_queue_with_dead_letters_and_reports_each_message(
    resources: Mapping[str, Any],
) -> None:
    known = queues(resources)
    mappings = of_type(resources, "AWS::Lambda::EventSourceMapping")
    assert len(mappings) == len(of_type(resources, "AWS::Lambda::Function"))
    for name, mapping in mappings.items():
        (source,) = named(mapping["EventSourceArn"])
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"], name
        assert known[source]["RedrivePolicy"]["maxReceiveCount"] >= 5, "AWS's least: throttled polls count, too"
        assert mapping["ScalingConfig"]["MaximumConcurrency"] <= 5, "a new account runs ten functions at a time"


def test_every_queue_that_keeps_what_failed_has_an_alarm(resources: Mapping[str, Any]) -> None:
    alarms = json.dumps(list(of_type(resources, "AWS::CloudWatch::Alarm").values()))
    keeping = {name for name, body in queues(resources).items() if body.get("MessageRetentionPeriod") == 14 * 24 * 3600}
    assert len(keeping) >= 7
    assert [name for name in keeping if name not in alarms] == []


def test_every_queue_that_feeds_a_function_has_an_alarm_on_its_age(resources: Mapping[str, Any]) -> None:
    ages = [
        body
        for body in of_type(resources, "AWS::CloudWatch::Alarm").values()
        if body.get("MetricName") == "ApproximateAgeOfOldestMessage"
    ]
    feeding = [name for name, body in queues(resources).items() if "RedrivePolicy" in body]
    assert len(feeding) >= 7
    assert [name for name in feeding if name not in json.dumps(ages)] == []
