"""AWS writes null, or "", for what is absent from an event, and moments as numbers or as texts: all read the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lambdas.notify_owner.ended_evaluations import read_unjudged
from lambdas.record_verdict.logic import read
from lambdas.report_custom_rule.logic import decide
from lambdas.report_custom_rule.settings import ReportCustomRuleSettings
from lambdas.start_evaluation.chain import read_end
from trackside.contracts.event import read_rule_evaluations, read_training_job_state_change

EVENTS = Path(__file__).parent / "events"
# What the events of AWS may hold: docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
TRAINING: tuple[str, ...] = (
    "FailureReason",
    "DebugRuleEvaluationStatuses",
    "Tags",
    "ResourceConfig",
    "StoppingCondition",
)
TRAINING += ("SecondaryStatus", "CreationTime", "TrainingStartTime", "TrainingEndTime", "LastModifiedTime")
PROCESSING: tuple[str, ...] = (
    "FailureReason",
    "ExitMessage",
    "StoppingCondition",
    "ProcessingStartTime",
    "ProcessingEndTime",
)
PROCESSING += ("LastModifiedTime", "RoleArn", "ProcessingJobArn")


def of_custom_rule(event: Mapping[str, Any]) -> Any:
    role = event["detail"].get("RoleArn") or "the role"
    return decide(event, ReportCustomRuleSettings(event_bus="trackside", role_arn=role))


READERS: list[tuple[str, Callable[[Mapping[str, Any]], Any], tuple[str, ...]]] = [
    ("training_started", read_training_job_state_change, TRAINING),
    ("training_started", read, TRAINING),
    ("training_stopped", read_training_job_state_change, TRAINING),
    ("official_issues_found", read_rule_evaluations, TRAINING),
    ("official_issues_found", read, TRAINING),
    ("custom_rule_ended", of_custom_rule, PROCESSING),
    ("custom_rule_ended", read_end, PROCESSING),
    ("custom_rule_ended", read_unjudged, PROCESSING),
]
TABLE = [pytest.param(*row, id=f"{row[0]} by {row[1].__name__}") for row in READERS]


def golden(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


@pytest.mark.parametrize(("name", "reader", "names"), TABLE)
def test_null_is_read_as_what_is_absent(name: str, reader: Callable[..., Any], names: tuple[str, ...]) -> None:
    event = golden(name)
    nulls = {each: None for each in names if each not in event["detail"]}
    assert reader({**event, "detail": {**nulls, **event["detail"]}}) == reader(event)
    assert nulls


@pytest.mark.parametrize(("name", "reader", "names"), TABLE)
def test_of_what_is_not_needed_anything_may_be_null(
    name: str, reader: Callable[..., Any], names: tuple[str, ...]
) -> None:
    event = golden(name)
    without = {key: value for key, value in event["detail"].items() if key not in names}
    nulls = {**event["detail"], **dict.fromkeys(names)}
    assert reader({**event, "detail": nulls}) == reader({**event, "detail": without})


@pytest.mark.parametrize(("name", "reader", "names"), TABLE)
def test_moments_may_be_texts(name: str, reader: Callable[..., Any], names: tuple[str, ...]) -> None:
    event = golden(name)
    texts = {
        key: str(value) if key in names and isinstance(value, int) else value for key, value in event["detail"].items()
    }
    statuses = [
        {key: str(value) if isinstance(value, int) else value for key, value in status.items()}
        for status in event["detail"].get("DebugRuleEvaluationStatuses", ())
    ]
    if statuses:
        texts["DebugRuleEvaluationStatuses"] = statuses
    assert reader({**event, "detail": texts}) == reader(event)


def test_a_status_without_words_is_read() -> None:
    event = golden("official_issues_found")
    for status in event["detail"]["DebugRuleEvaluationStatuses"]:
        status["StatusDetails"] = None
    assert {said.details for said in read_rule_evaluations(event)} == {""}


@pytest.mark.parametrize("empty", [None, ""])
def test_tags_may_be_empty(empty: str | None) -> None:
    event = golden("training_started")
    event["detail"]["Tags"] = empty
    assert read_training_job_state_change(event).tags == {}
