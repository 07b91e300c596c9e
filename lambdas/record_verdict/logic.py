"""The content of an event about a job and its rules, and the part of it that is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lambdas.shared.decisions import Nothing
from lambdas.shared.runs import sent_at
from trackside.contracts.deployment.run_table import HistoryRecord, JobRecord, RuleRecord, job_record, merged
from trackside.contracts.event import (
    AWS_DETAIL_TYPE,
    TrainingJobStateChange,
    read_rule_evaluations,
    read_training_job_state_change,
)
from trackside.contracts.job_choice import choice_in_tags
from trackside.contracts.run_layout import run_of_job


@dataclass(frozen=True)
class EventContent:
    """The content of one event: the state of its job (None: not in it), and the evaluations of its rules."""

    job: JobRecord | None
    history: tuple[HistoryRecord, ...]


def read(event: Mapping[str, Any]) -> EventContent:
    """Return the content of an event of either shape. Errors: `ConfigurationError`."""
    event_id = str(event.get("id", ""))
    # An official status may come without a moment of its own: then the event's holds.
    at = sent_at(event)
    history = tuple(
        HistoryRecord(replace(one, modified_at=one.modified_at or at), event_id)
        for one in read_rule_evaluations(event, and_of_ended_jobs=True)
    )
    if event.get("detail-type") != AWS_DETAIL_TYPE:
        return EventContent(None, history)
    change = read_training_job_state_change(event)
    job = job_record(change, run_uri=_run_uri(change))
    return EventContent(replace(job, modified_at=job.modified_at or at), history)


def _run_uri(change: TrainingJobStateChange) -> str:
    """Return the address of the run that rules judge; "" without one."""
    choice = choice_in_tags(change.tags)
    return run_of_job(choice.run, change.job.name) if choice.is_judged else ""


def decide(history: HistoryRecord, known: RuleRecord | None) -> RuleRecord | Nothing:
    """Return the rule's record with this evaluation in it; nothing if the latest record is equal."""
    now = history.evaluation
    is_same = known is not None and known.evaluation.job.is_same_as(now.job)
    if known and is_same and _content_of(known.evaluation) == _content_of(now):
        return Nothing(f"{now.configuration_name} of {now.job.name} is {now.status.value}, as is known.")
    return merged(known, now)


def _content_of(one: Any) -> tuple[Any, ...]:
    return one.status, one.finding_id, one.details, one.severity
