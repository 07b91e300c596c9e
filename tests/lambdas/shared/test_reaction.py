"""What every reaction's log line says: which run, which event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from lambdas.shared.decisions import Done
from lambdas.shared.observability import logger
from lambdas.shared.reaction import reaction

LogLines = Callable[[], list[dict[str, Any]]]
Deliver = Callable[..., list[str]]


@reaction
def handle(event: Mapping[str, Any], context: Any) -> Iterator[Done]:
    logger.info("at work")
    if event["id"] == "broken":
        raise RuntimeError("no more")
    yield Done("done")


@pytest.mark.parametrize(
    ("event", "correlation"),
    [
        pytest.param({"id": "e1", "detail": {"TrainingJobName": "digits-01"}}, "digits-01", id="of a training job"),
        pytest.param(
            {"id": "e1", "detail": {"Environment": {"TRAINING_JOB_NAME": "digits-01"}}},
            "digits-01",
            id="of a processing job that judges one",
        ),
        pytest.param({"id": "e1", "detail": {}}, "e1", id="of a schedule"),
        pytest.param({"id": "e1", "detail": ["x"]}, "e1", id="of a strange shape"),
        pytest.param({"id": "e1", "detail": {"TrainingJobName": {"a": 1}}}, "e1", id="of a name that is none"),
        pytest.param({"id": "e1", "detail": {"Environment": "x"}}, "e1", id="of an environment that is none"),
    ],
)
def test_lines_name_the_run_and_the_event(
    deliver: Deliver, log_lines: LogLines, event: dict[str, Any], correlation: str
) -> None:
    assert deliver(handle, event) == []
    lines = [line for line in log_lines() if "message" in line]
    assert [line["message"] for line in lines] == ["at work", "done"]
    assert {(line["correlation_id"], line["event_id"]) for line in lines} == {(correlation, "e1")}


def test_no_line_bears_the_name_of_the_message_before(deliver: Deliver, log_lines: LogLines) -> None:
    first = {"id": "e1", "detail": {"TrainingJobName": "digits-01"}}
    broken = {"id": "broken", "detail": {"TrainingJobName": "digits-02"}}
    tick = {"id": "tick", "detail": {}}
    assert deliver(handle, first, "not json", broken, tick) == ["message-1", "message-2"]
    named = [(line["correlation_id"], line["message"]) for line in log_lines() if "message" in line]
    assert named == [
        ("digits-01", "at work"),
        ("digits-01", "done"),
        ("message-1", "Not an event; the message goes to the dead-letter queue."),
        ("digits-02", "at work"),
        ("digits-02", "The reaction failed; the message returns to its queue."),
        ("tick", "at work"),
        ("tick", "done"),
    ]
