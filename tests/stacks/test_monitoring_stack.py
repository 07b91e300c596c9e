"""What raises an alarm, whom it tells, and what the dashboard shows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from stacks.deployment_settings import DeploymentSettings
from stacks.paths import LAMBDAS
from trackside.contracts.deployment import reaction_metrics

REACTIONS = sorted(path.parent.name for path in LAMBDAS.glob("*/handler.py"))
STACK = "TracksideMonitoring"
Resources = Mapping[str, Any]


def title(reaction: str) -> str:
    return "".join(word.capitalize() for word in reaction.split("_"))


@pytest.fixture(scope="session")
def alarms(resources: Resources) -> dict[str, Mapping[str, Any]]:
    """Name of the construct -> properties; without those by which ECS scales."""
    return {
        body["Metadata"]["aws:cdk:path"].split("/")[1]: body["Properties"]
        for name, body in resources.items()
        if body["Type"] == "AWS::CloudWatch::Alarm" and name.startswith(STACK)
    }


def dimensions(alarm: Mapping[str, Any]) -> dict[str, Any]:
    return {each["Name"]: each["Value"] for each in alarm["Dimensions"]}


AT_LEAST, BELOW = "GreaterThanOrEqualToThreshold", "LessThanThreshold"


@pytest.mark.parametrize(
    ("name", "metric", "question", "silence"),
    [
        pytest.param(
            "IssuesFound", ("Trackside", "IssuesFound", "Sum"), (60, 1, AT_LEAST, 1), "notBreaching", id="issues"
        ),
        pytest.param(
            "DetectionLatency",
            ("Trackside/Reactions", "DetectionLatency", "Maximum"),
            (300, 1, AT_LEAST, 300),
            "notBreaching",
            id="verdicts that are late",
        ),
        pytest.param(
            "EvaluatorsSilent",
            ("Trackside/Reactions", "SilentEvaluators", "Maximum"),
            (300, 1, AT_LEAST, 1),
            "notBreaching",
            id="an evaluator without a sign of life",
        ),
        pytest.param(
            "ReconcileSilent",
            ("Trackside/Reactions", "Sweeps", "Sum"),
            (300, 3, BELOW, 1),
            "breaching",
            id="no sweep: silence itself is the alarm",
        ),
        pytest.param(
            "FailedEvaluations",
            ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum"),
            (60, 1, AT_LEAST, 1),
            "notBreaching",
            id="a processing job that failed",
        ),
    ],
)
def test_asks(
    alarms: Mapping[str, Any], name: str, metric: tuple[str, ...], question: tuple[Any, ...], silence: str
) -> None:
    alarm = alarms[name]
    assert (alarm["Namespace"], alarm["MetricName"], alarm["Statistic"]) == metric
    asked = (alarm["Period"], alarm["EvaluationPeriods"], alarm["ComparisonOperator"], alarm["Threshold"])
    assert asked == question
    assert alarm["TreatMissingData"] == silence


@pytest.mark.parametrize("reaction", REACTIONS)
@pytest.mark.parametrize(
    ("what", "asked"),
    [
        pytest.param("DeadLetters", ("ApproximateNumberOfMessagesVisible", 1, {"QueueName"}), id="gave up"),
        pytest.param("Late", ("ApproximateAgeOfOldestMessage", 1800, {"QueueName"}), id="does not keep up"),
    ],
)
def test_every_reaction_is_watched(alarms: Mapping[str, Any], reaction: str, what: str, asked: tuple[Any, ...]) -> None:
    alarm = alarms[title(reaction) + what]
    assert (alarm["MetricName"], alarm["Threshold"], set(dimensions(alarm))) == asked
    assert (alarm["ComparisonOperator"], alarm["TreatMissingData"]) == (AT_LEAST, "notBreaching")
    assert reaction in str(alarm["AlarmDescription"])


WEBHOOKS = ("webhook",)


def test_no_two_alarms_watch_the_same(alarms: Mapping[str, Any]) -> None:
    watched = [json.dumps([each["MetricName"], each["Dimensions"]]) for each in alarms.values()]
    assert len(watched) == len(set(watched)) == 5 + 4 + len(WEBHOOKS) + 2 * len(REACTIONS)  # four of the fleet


def test_all_alarms_but_that_of_issues_tell_those_who_run_trackside(alarms: Mapping[str, Any]) -> None:
    """Who runs the training is told on the topic of issues, and incident workflows by the one alarm about issues."""
    told: dict[str, set[str]] = {}
    for name, alarm in alarms.items():
        (action,) = alarm["AlarmActions"]
        told.setdefault(json.dumps(action), set()).add(name)
    assert sorted(map(len, told.values())) == [1, len(alarms) - 1]
    assert {"IssuesFound"} in told.values()


def test_the_counted_names_are_those_that_are_asked_for(alarms: Mapping[str, Any]) -> None:
    own = {alarm["MetricName"]: dimensions(alarm) for alarm in alarms.values() if "Reactions" in alarm["Namespace"]}
    assert own == {
        reaction_metrics.DETECTION_LATENCY: {"service": "record_verdict"},
        reaction_metrics.SILENT_EVALUATORS: {"service": "reconcile"},
        reaction_metrics.SWEEPS: {"service": "reconcile"},
    }


@pytest.fixture(scope="session")
def dashboard(resources: Resources) -> tuple[str, str]:
    """Its name and its body; what the deployment fills in stands as X."""
    (body,) = [body["Properties"] for body in resources.values() if body["Type"] == "AWS::CloudWatch::Dashboard"]
    parts = body["DashboardBody"]["Fn::Join"][1]
    return body["DashboardName"], "".join(part if isinstance(part, str) else "X" for part in parts)


def test_there_is_one_dashboard_and_it_is_whole(dashboard: tuple[str, str], alarms: Mapping[str, Any]) -> None:
    name, text = dashboard
    assert re.fullmatch(r"[\w-]+", name)
    widgets = json.loads(text)["widgets"]
    (states,) = [each["properties"]["alarms"] for each in widgets if each["type"] == "alarm"]
    assert len(states) == len(alarms)
    for reaction in REACTIONS:
        assert text.count(f'"label":"{reaction}"') == 5, "age, dead letters, calls, errors, throttles"
    for metric in ("IssuesFound", "DetectionLatency", "WatchedJobs", "SilentEvaluators", "Sweeps"):
        assert f'"{metric}"' in text


def test_everything_that_can_carry_a_tag_carries_the_cost_tags(resources: Resources) -> None:
    tagged = ("AWS::Lambda::Function", "AWS::SQS::Queue", "AWS::SNS::Topic", "AWS::S3::Bucket", "AWS::DynamoDB::Table")
    for name, body in resources.items():
        if body["Type"] in (*tagged, "AWS::KMS::Key", "AWS::IAM::Role", "AWS::CloudWatch::Alarm"):
            assert {"Key": "project", "Value": "trackside"} in body["Properties"]["Tags"], name


def test_a_processing_job_carries_the_same_cost_tags(resources: Resources) -> None:
    variables = [
        body["Properties"]["Environment"]["Variables"]
        for body in resources.values()
        if body["Type"] == "AWS::Lambda::Function"
    ]
    assert [each["TRACKSIDE_COST_TAGS"] for each in variables if "TRACKSIDE_COST_TAGS" in each] == ["project=trackside"]


def test_thresholds_are_settings() -> None:
    given = {"trackside:evaluator_silence_minutes": "45", "trackside:detection_latency_seconds": "60"}
    settings = DeploymentSettings.from_context(given)
    assert (settings.monitoring.silence_minutes, settings.monitoring.detection_latency_seconds) == (45, 60)
