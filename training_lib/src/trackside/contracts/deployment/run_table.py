"""The table of runs: one partition for each ARN of a training job: state, the latest of each rule, and the history.

| pk               | sk                              | content                                     |
|------------------|---------------------------------|---------------------------------------------|
| training job ARN | `job`                           | `JobRecord`                                 |
| training job ARN | `rule#<configuration>`          | `RuleRecord`: the latest status of the rule |
| training job ARN | `history#<ms>#<rule>#<status>`  | `HistoryRecord`: one status of a rule       |
| training job ARN | `decision#...`                  | `deployment.stop_record.DecisionRecord`     |
| training job ARN | `veto`                          | `deployment.stop_record.VetoRecord`         |

The one index has each `job` item on a shelf: `running` while it runs, then the day on which it was created.

SageMaker gives the name of a deleted job away again, and the ARN with it. The items of a partition belong to the job
that was created last; those of an earlier one (`TrainingJob.created_at`) count for nothing, and stay as its history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from trackside.contracts.deployment.table_item import JOB as JOB_OF_ITEM
from trackside.contracts.deployment.table_item import TableRecord, write_item
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
from trackside.contracts.stored_fields import (
    FINITE,
    INTEGER,
    REQUIRED,
    TEXT,
    Kind,
    computed,
    document_of,
    stored,
)

VERSION = 1
SHELVES = "shelves"  # the index
RUNNING = "running"  # the shelf of jobs that have not ended
JOB = "job"
RULE_PREFIX = "rule#"
HISTORY_PREFIX = "history#"
MOST_FINDINGS = 200  # a rule record counts so many; one that flickers more often is no news

FORESEEN_STATUSES = ("InProgress", "Stopping", *TERMINAL_JOB_STATUSES)

_JOB_RANKS: Mapping[str, int] = {"InProgress": 0, "Stopping": 1, **dict.fromkeys(TERMINAL_JOB_STATUSES, 2)}
_RULE_RANKS = {status: rank for rank, status in enumerate(RuleEvaluationStatus)}


@dataclass(frozen=True)
class JobRecord(TableRecord):
    """The known state of a training job. Moments are seconds since the epoch, 0: not known.

    run_uri    location of the run; "" for a job that only SageMaker Debugger watches
    evaluator  the processing job that judges it; "" is left out of the item, so that a later state keeps the stored one
    """

    item_name = "The item of a training job"

    job: TrainingJob = field(metadata=stored(JOB_OF_ITEM))
    status: str = field(metadata=stored(TEXT))
    secondary_status: str = field(default="", metadata=stored(TEXT))
    run_uri: str = field(default="", metadata=stored(TEXT))
    created_at: float = field(default=0.0, metadata=stored(FINITE))
    started_at: float = field(default=0.0, metadata=stored(FINITE))
    ended_at: float = field(default=0.0, metadata=stored(FINITE))
    modified_at: float = field(default=0.0, metadata=stored(FINITE))
    failure_reason: str = field(default="", metadata=stored(TEXT))
    instance_type: str = field(default="", metadata=stored(TEXT))
    instance_count: int = field(default=0, metadata=stored(INTEGER))
    max_runtime_seconds: int = field(default=0, metadata=stored(INTEGER))
    evaluator: str = field(default="", metadata=stored(TEXT, optional=True))

    def __post_init__(self) -> None:
        if self.job.created_at != int(self.created_at):
            object.__setattr__(self, "job", replace(self.job, created_at=int(self.created_at)))

    @property
    def has_ended(self) -> bool:
        """True once the job will never write again."""
        return self.status in TERMINAL_JOB_STATUSES

    @property
    @computed(TEXT)
    def order(self) -> str:
        """The sort key of the state: later states compare greater, whatever the order of their events.

        An ended job never runs again, so the end is greater than any other state, also than an unforeseen one such as
        `Deleting`.
        """
        return f"{_milliseconds(self.created_at)}#{_JOB_RANKS.get(self.status, 0)}#{_milliseconds(self.modified_at)}"

    @property
    @computed(TEXT)
    def shelf(self) -> str:
        """The key of the job in the index."""
        return shelf_of_day(self.created_at) if self.has_ended else RUNNING

    def to_item(self, *, expires_at: int | None) -> dict[str, dict[str, Any]]:
        """Return the item; `expires_at` in seconds since the epoch, None: never."""
        return write_item({**item_key(self.job.arn, JOB, expires_at), **document_of(self)})


def _evaluation_attributes(evaluation: RuleEvaluation) -> dict[str, str | int | float | bool | None]:
    """Return the whole evaluation as one text, and the values that people look for in a table."""
    return {
        "detail": to_json(evaluation.to_detail()),
        "names_actions": evaluation.actions is not None,
        "status": evaluation.status.value,
        "severity": evaluation.severity.value,
        "since_step": evaluation.evidence.since_step,
        "details": evaluation.details,
        "modified_at": evaluation.modified_at,
    }


def _read_evaluation(fields: Fields) -> RuleEvaluation:
    """Read the text of `_evaluation_attributes`. Raises `ConfigurationError`."""
    detail = parse_json(fields.text("detail", "{}"), subject="The item's detail")
    (evaluation,) = read_rule_evaluations({"detail-type": DETAIL_TYPE, "detail": detail})
    return evaluation if fields.boolean("names_actions") else replace(evaluation, actions=None)


EVALUATION = Kind(
    {},
    lambda fields, name, absent: _read_evaluation(fields),
    _evaluation_attributes,
    is_flat=True,
)
STEPS = Kind(
    {"type": "string"},
    lambda fields, name, absent: tuple(int(step) for step in fields.text(name, "").split(",") if step),
    lambda steps: ",".join(map(str, steps)),
)


@dataclass(frozen=True)
class RuleRecord(TableRecord):
    """The latest status of one rule of one job.

    evaluation      the latest status
    first_found_at  moment of the first issue, in seconds since the epoch; 0: none
    last_found_at   moment of the latest issue; 0: none
    findings        its issues, each by the first step at which it held; issues of SageMaker Debugger's rules name no
                    step and count once
    revision        number of changes of this record
    """

    item_name = "The item of a rule"

    evaluation: RuleEvaluation = field(metadata=stored(EVALUATION))
    first_found_at: float = field(default=0.0, metadata=stored(FINITE))
    last_found_at: float = field(default=0.0, metadata=stored(FINITE))
    findings: tuple[int, ...] = field(default=(), metadata=stored(STEPS))
    revision: int = field(default=1, metadata=stored(INTEGER, absent=REQUIRED))

    @property
    @computed(INTEGER)
    def finding_count(self) -> int:
        """The number of its issues."""
        return len(self.findings)

    def to_item(self, *, expires_at: int | None) -> dict[str, dict[str, Any]]:
        """Return the item; `expires_at` in seconds since the epoch, None: never."""
        key = item_key(self.evaluation.job.arn, rule_key(self.evaluation.configuration_name), expires_at)
        return write_item({**key, **document_of(self)})


@dataclass(frozen=True)
class HistoryRecord(TableRecord):
    """One status of a rule of a job, and the event that brought it."""

    item_name = "The item of a rule's history"

    evaluation: RuleEvaluation = field(metadata=stored(EVALUATION))
    event_id: str = field(default="", metadata=stored(TEXT))

    @property
    def key(self) -> str:
        """The sort key: the same for every delivery of one status."""
        evaluation = self.evaluation
        moment = _milliseconds(evaluation.modified_at)
        return f"{HISTORY_PREFIX}{moment}#{evaluation.configuration_name}#{evaluation.status.value}"

    def to_item(self, *, expires_at: int | None) -> dict[str, dict[str, Any]]:
        """Return the item; `expires_at` in seconds since the epoch, None: never."""
        return write_item({**item_key(self.evaluation.job.arn, self.key, expires_at), **document_of(self)})


def job_record(change: TrainingJobStateChange, *, run_uri: str) -> JobRecord:
    """Return the state of a job that an event reports."""
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
    """Return the record of a rule after a new evaluation. An earlier status never replaces a later one.

    Nor does a status of an earlier job of that name count for a later one.
    """
    if known is None:
        known = RuleRecord(evaluation, revision=0)
    elif not evaluation.job.is_same_as(known.evaluation.job):
        is_newer = evaluation.job.created_at > known.evaluation.job.created_at
        known = RuleRecord(evaluation, revision=known.revision) if is_newer else known
        if not is_newer:
            return replace(known, revision=known.revision + 1)
    latest = evaluation if is_later(evaluation, known.evaluation) else known.evaluation
    merged = replace(known, evaluation=latest, revision=known.revision + 1)
    if not evaluation.found_issues:
        return merged
    at = evaluation.modified_at
    findings = tuple(sorted({*known.findings, evaluation.evidence.since_step}))
    return replace(
        merged,
        first_found_at=min((moment for moment in (known.first_found_at, at) if moment), default=0.0),  # 0: not known
        last_found_at=max(known.last_found_at, at),
        findings=findings if len(findings) <= MOST_FINDINGS else known.findings,
    )


def is_about(job: TrainingJob, evaluation: RuleEvaluation, *, at: float) -> bool:
    """Return False for a stored evaluation of another job with the name of `job`.

    Args:
        job: The job.
        evaluation: The stored evaluation.
        at: The moment of its record, in seconds since the epoch, which decides if a former release stored it.
    """
    created_at = evaluation.job.created_at
    return created_at == job.created_at if created_at and job.created_at else at >= job.created_at


def is_later(one: RuleEvaluation, other: RuleEvaluation) -> bool:
    """Return True if `one` is the later status of a rule.

    The later job decides, then the evaluator's count, if both have one: two evaluators of a chain have two clocks. Then
    the moment decides, then the rank of the status.
    """
    has_count = one.sequence > 0 and other.sequence > 0
    return _order_of(one, has_count=has_count) > _order_of(other, has_count=has_count)


def _order_of(evaluation: RuleEvaluation, *, has_count: bool) -> tuple[int, int, int, int]:
    count = evaluation.sequence if has_count else 0
    moment = int(_milliseconds(evaluation.modified_at))
    return evaluation.job.created_at, count, moment, _RULE_RANKS[evaluation.status]


def rule_key(configuration_name: str) -> str:
    """Return the sort key of a rule's latest status."""
    return f"{RULE_PREFIX}{configuration_name}"


def shelf_of_day(seconds: float) -> str:
    """Return the shelf of the jobs that were created on that day, in UTC: `2026-11-21`."""
    return datetime.fromtimestamp(seconds, tz=timezone.utc).date().isoformat()


def item_key(job_arn: str, sort_key: str, expires_at: int | None) -> dict[str, str | int | None]:
    """Return the attributes that every item has: key, version, and expiry."""
    return {"pk": job_arn, "sk": sort_key, "version": VERSION, "expires_at": expires_at}


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000):015d}"
