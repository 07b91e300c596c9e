"""The table of runs: one partition for each training job, with its state, the latest of each rule, and the history.

| pk               | sk                              | what it is                                  |
|------------------|---------------------------------|---------------------------------------------|
| training job ARN | `job`                           | `JobRecord`                                 |
| training job ARN | `rule#<configuration>`          | `RuleRecord`: the latest of that rule       |
| training job ARN | `history#<ms>#<rule>#<status>`  | `HistoryRecord`: each thing that was said   |
| training job ARN | `decision#<finding>#<outcome>`  | `deployment.stop_record.DecisionRecord`     |
| training job ARN | `veto`                          | `deployment.stop_record.VetoRecord`         |

The one index has each `job` item on a shelf: `running` while it runs, then the day on which it was created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from trackside.contracts.deployment.table_item import Item, read_item, write_item
from trackside.contracts.event import (
    DETAIL_TYPE,
    TERMINAL_JOB_STATUSES,
    RuleEvaluation,
    RuleEvaluationStatus,
    TrainingJob,
    TrainingJobStateChange,
    read_rule_evaluations,
)
from trackside.contracts.fields import Fields, parse_json, to_json

VERSION = 1
SHELVES = "shelves"  # the index
RUNNING = "running"  # the shelf of jobs that have not ended
JOB = "job"
RULE_PREFIX = "rule#"
HISTORY_PREFIX = "history#"
MOST_FINDINGS = 200  # a rule record counts so many; one that flickers more often is no news

_JOB_RANKS: Mapping[str, int] = {"InProgress": 0, "Stopping": 1, **dict.fromkeys(TERMINAL_JOB_STATUSES, 2)}
_RULE_RANKS = {status: rank for rank, status in enumerate(RuleEvaluationStatus)}


@dataclass(frozen=True)
class JobRecord:
    """What is known of a training job. Moments are seconds since the epoch, 0: not known. `run_uri` is "" for a job
    that is watched by SageMaker Debugger only. `evaluator` is the processing job that was seen to judge it."""

    job: TrainingJob
    status: str
    secondary_status: str = ""
    run_uri: str = ""
    created_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0
    modified_at: float = 0.0
    failure_reason: str = ""
    instance_type: str = ""
    instance_count: int = 0
    max_runtime_seconds: int = 0
    evaluator: str = ""

    @property
    def has_ended(self) -> bool:
        """True once the job will never write again."""
        return self.status in TERMINAL_JOB_STATUSES

    @property
    def order(self) -> str:
        """Later states of a job compare greater, whenever their events come: a job that ended runs no more."""
        return f"{_milliseconds(self.created_at)}#{_JOB_RANKS.get(self.status, 3)}#{_milliseconds(self.modified_at)}"

    @property
    def shelf(self) -> str:
        """Where the index has it."""
        return shelf_of_day(self.created_at) if self.has_ended else RUNNING

    def to_item(self, *, expires_at: int | None) -> dict[str, dict[str, Any]]:
        """The item; `expires_at` in seconds since the epoch, None: never."""
        return write_item(
            {
                **item_key(self.job.arn, JOB, expires_at),
                "order": self.order,
                "shelf": self.shelf,
                "name": self.job.name,
                "status": self.status,
                "secondary_status": self.secondary_status,
                "run_uri": self.run_uri,
                "created_at": self.created_at,
                "started_at": self.started_at,
                "ended_at": self.ended_at,
                "modified_at": self.modified_at,
                "failure_reason": self.failure_reason,
                "instance_type": self.instance_type,
                "instance_count": self.instance_count,
                "max_runtime_seconds": self.max_runtime_seconds,
                "evaluator": self.evaluator or None,  # else a later state of the job would wipe it out
            }
        )

    @classmethod
    def from_item(cls, item: Item) -> JobRecord:
        """Errors: `ConfigurationError`."""
        fields = read_item(item)
        record = cls(
            job=TrainingJob(fields.text("name"), fields.text("pk")),
            status=fields.text("status"),
            secondary_status=fields.text("secondary_status", ""),
            run_uri=fields.text("run_uri", ""),
            created_at=fields.number("created_at", 0),
            started_at=fields.number("started_at", 0),
            ended_at=fields.number("ended_at", 0),
            modified_at=fields.number("modified_at", 0),
            failure_reason=fields.text("failure_reason", ""),
            instance_type=fields.text("instance_type", ""),
            instance_count=fields.integer("instance_count", 0),
            max_runtime_seconds=fields.integer("max_runtime_seconds", 0),
            evaluator=fields.text("evaluator", ""),
        )
        fields.finish(subject="The item of a training job")
        return record


@dataclass(frozen=True)
class RuleRecord:
    """The latest that one rule said of one job. `first_found_at` and `last_found_at` are the moments of its first and
    latest issue, 0: none. `findings` are its issues, each by the step since which it held; a rule of SageMaker Debugger
    tells no step, so its issue counts once. `revision` counts the changes of this record."""

    evaluation: RuleEvaluation
    first_found_at: float = 0.0
    last_found_at: float = 0.0
    findings: tuple[int, ...] = ()
    revision: int = 1

    @property
    def order(self) -> tuple[int, int]:
        """Later statuses compare greater; of two of the same moment the one that says more."""
        return order_of(self.evaluation)

    def to_item(self, *, expires_at: int | None) -> dict[str, dict[str, Any]]:
        """The item; `expires_at` in seconds since the epoch, None: never."""
        name = self.evaluation.configuration_name
        return write_item(
            {
                **item_key(self.evaluation.job.arn, rule_key(name), expires_at),
                **evaluation_attributes(self.evaluation),
                "first_found_at": self.first_found_at,
                "last_found_at": self.last_found_at,
                "findings": ",".join(map(str, self.findings)),
                "finding_count": len(self.findings),
                "revision": self.revision,
            }
        )

    @classmethod
    def from_item(cls, item: Item) -> RuleRecord:
        """Errors: `ConfigurationError`."""
        fields = read_item(item)
        record = cls(
            evaluation=read_evaluation(fields),
            first_found_at=fields.number("first_found_at", 0),
            last_found_at=fields.number("last_found_at", 0),
            findings=tuple(int(step) for step in fields.text("findings", "").split(",") if step),
            revision=fields.integer("revision"),
        )
        fields.finish(subject="The item of a rule")
        return record


@dataclass(frozen=True)
class HistoryRecord:
    """One thing that a rule said of a job, and the event that brought it."""

    evaluation: RuleEvaluation
    event_id: str = ""

    @property
    def key(self) -> str:
        """The same for the same thing, however often it is said."""
        said = self.evaluation
        moment = _milliseconds(said.modified_at)
        return f"{HISTORY_PREFIX}{moment}#{said.configuration_name}#{said.status.value}"

    def to_item(self, *, expires_at: int | None) -> dict[str, dict[str, Any]]:
        """The item; `expires_at` in seconds since the epoch, None: never."""
        return write_item(
            {
                **item_key(self.evaluation.job.arn, self.key, expires_at),
                **evaluation_attributes(self.evaluation),
                "event_id": self.event_id,
            }
        )

    @classmethod
    def from_item(cls, item: Item) -> HistoryRecord:
        """Errors: `ConfigurationError`."""
        fields = read_item(item)
        record = cls(evaluation=read_evaluation(fields), event_id=fields.text("event_id", ""))
        fields.finish(subject="The item of a rule's history")
        return record


def job_record(change: TrainingJobStateChange, *, run_uri: str) -> JobRecord:
    """The state of a job, as its event says it."""
    return JobRecord(
        job=change.job,
        status=change.status,
        secondary_status=change.secondary_status,
        run_uri=run_uri,
        created_at=change.created_at,
        started_at=change.started_at,
        ended_at=change.ended_at,
        modified_at=change.modified_at,
        failure_reason=change.failure_reason,
        instance_type=change.instance_type,
        instance_count=change.instance_count,
        max_runtime_seconds=change.max_runtime_seconds,
    )


def merged(known: RuleRecord | None, evaluation: RuleEvaluation) -> RuleRecord:
    """What is known of a rule once this was said, too: a later status is never replaced by an earlier one."""
    if known is None:
        known = RuleRecord(evaluation, revision=0)
    latest = max(known.evaluation, evaluation, key=order_of)
    merged = replace(known, evaluation=latest, revision=known.revision + 1)
    if not evaluation.found_issues:
        return merged
    at = evaluation.modified_at
    findings = tuple(sorted({*known.findings, evaluation.evidence.since_step}))
    return replace(
        merged,
        first_found_at=min(known.first_found_at or at, at),
        last_found_at=max(known.last_found_at, at),
        findings=findings if len(findings) <= MOST_FINDINGS else known.findings,
    )


def order_of(evaluation: RuleEvaluation) -> tuple[int, int]:
    """Later statuses of a rule compare greater; of two of the same moment the one that says more."""
    return int(_milliseconds(evaluation.modified_at)), _RULE_RANKS[evaluation.status]


def rule_key(configuration_name: str) -> str:
    """The sort key of a rule's latest status."""
    return f"{RULE_PREFIX}{configuration_name}"


def shelf_of_day(seconds: float) -> str:
    """The shelf of the jobs that were created on that day, in UTC: `2026-11-21`."""
    return datetime.fromtimestamp(seconds, tz=timezone.utc).date().isoformat()


def item_key(job_arn: str, sort_key: str, expires_at: int | None) -> dict[str, str | int | None]:
    """What every item begins with."""
    return {"pk": job_arn, "sk": sort_key, "version": VERSION, "expires_at": expires_at}


def evaluation_attributes(said: RuleEvaluation) -> dict[str, str | int | float | bool | None]:
    """The whole of it as one text, and beside it what people look for in a table."""
    return {
        "detail": to_json(said.to_detail()),
        "names_actions": said.actions is not None,
        "status": said.status.value,
        "severity": said.severity.value,
        "since_step": said.evidence.since_step,
        "details": said.details,
        "modified_at": said.modified_at,
    }


def read_evaluation(fields: Fields) -> RuleEvaluation:
    """What `evaluation_attributes` wrote. Errors: `ConfigurationError`."""
    detail = parse_json(fields.text("detail", "{}"), subject="The item's detail")
    (said,) = read_rule_evaluations({"detail-type": DETAIL_TYPE, "detail": detail})
    return said if fields.boolean("names_actions") else replace(said, actions=None)


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000):015d}"
