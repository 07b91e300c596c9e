"""Events on the event bus: AWS's own field names and status enum, plus a small snapshot of the evidence.

Two shapes arrive at the same handlers:

- ours, detail type `Rule Evaluation Status Change`, one rule of one run;
- AWS's `SageMaker Training Job State Change`, with a `DebugRuleEvaluationStatuses` list that may hold several rules
  (accounts that still have SageMaker Debugger). It carries no action: the job's tag
  `trackside:actions` decides, else the deployment's default.

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html and
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DebugRuleEvaluationStatus.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from trackside.contracts.action import Action
from trackside.contracts.action_terms import NO_TERMS, TERMS, ActionTerms
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.fields import Fields
from trackside.contracts.job_choice import ACTIONS_TAG, RESUMED_FROM_TAG, read_actions
from trackside.contracts.stored_fields import (
    COUNT,
    NUMBERS,
    TEXT,
    TEXTS,
    Kind,
    choice,
    choices,
    document_of,
    flat_record,
    record,
    record_of,
    series,
    stored,
)
from trackside.contracts.verdict import Outcome, Severity, State, Verdict

VERSION = 1
SOURCE = "trackside"
DETAIL_TYPE = "Rule Evaluation Status Change"
NOTIFICATION_DETAIL_TYPE = "Owner Notification"  # a notification of notify_owner, for webhooks
AWS_SOURCE = "aws.sagemaker"
AWS_DETAIL_TYPE = "SageMaker Training Job State Change"
PROCESSING_DETAIL_TYPE = "SageMaker Processing Job State Change"
REPEATED_SOURCE = "trackside.reconcile"  # of events that a sweep sends in place of a lost one of AWS

MOST_STATUS_DETAILS = 1024  # API_DebugRuleEvaluationStatus: StatusDetails has at most 1,024 characters
MOST_EVIDENCE_POINTS = 20
MOST_ID_CHARACTERS = 64  # AWS's have 36; a forged one must not fill the log
TERMINAL_JOB_STATUSES = ("Completed", "Failed", "Stopped")


class RuleEvaluationStatus(str, Enum):
    """The status of a rule, in AWS's words."""

    IN_PROGRESS = "InProgress"
    NO_ISSUES_FOUND = "NoIssuesFound"
    ISSUES_FOUND = "IssuesFound"
    ERROR = "Error"
    STOPPING = "Stopping"
    STOPPED = "Stopped"


STATUS_OF_OUTCOME: Mapping[Outcome, RuleEvaluationStatus] = {
    Outcome.CLEAN: RuleEvaluationStatus.NO_ISSUES_FOUND,
    Outcome.ISSUE_FOUND: RuleEvaluationStatus.ISSUES_FOUND,
    Outcome.NOT_EVALUATED: RuleEvaluationStatus.ERROR,
}


MILLISECONDS = Kind(
    {"type": "integer"},
    lambda fields, name, absent: fields.number(name, absent) / 1000,
    lambda seconds: round(seconds * 1000),
)
WHOLE_SECONDS = Kind(
    {"type": "integer"},
    lambda fields, name, absent: int(fields.number(name, absent) // 1000),
    lambda seconds: seconds * 1000,
)


@dataclass(frozen=True)
class TrainingJob:
    """The training job of an event. Actions use the ARN: a name alone may match a sibling.

    name        its name
    arn         its ARN
    created_at  the second of its creation, since the epoch; 0: not known
    continues   identity of the stopped job that it continues; "": none. It is the same job with or without it
    """

    name: str = field(metadata=stored(TEXT, "The training job.", name="TrainingJobName"))
    arn: str = field(metadata=stored(TEXT, "The training job.", name="TrainingJobArn"))
    created_at: int = field(
        default=0,
        metadata=stored(
            WHOLE_SECONDS,
            "The second of its creation, in milliseconds since 1970-01-01 UTC; left out where it is not known.",
            name="TrainingJobCreationTime",
            optional=True,
        ),
    )
    continues: str = field(
        default="",
        compare=False,
        metadata=stored(
            TEXT,
            "The stopped job that it continues, `ARN@second of creation`; left out for all other jobs.",
            name="ContinuesTrainingJob",
            optional=True,
        ),
    )

    @property
    def identity(self) -> str:
        """The ARN and the second of creation: SageMaker gives the name and the ARN of a deleted job away again."""
        return f"{self.arn}@{self.created_at}" if self.created_at else self.arn

    def is_same_as(self, other: TrainingJob) -> bool:
        """Return False for a job with another ARN, or of the same name from another time. An unknown time fits all."""
        unknown = not self.created_at or not other.created_at
        return self.arn == other.arn and (unknown or self.created_at == other.created_at)


def job_of_identity(text: str) -> TrainingJob:
    """Return the job of a text that `TrainingJob.identity` returned, or of an ARN."""
    arn, _, second = text.strip().partition("@")
    return TrainingJob(arn.rpartition("/")[2], arn, int(second) if second.isdecimal() and len(second) < 12 else 0)


@dataclass(frozen=True)
class Evidence:
    """A small snapshot: the tensor, the step, a few statistics, the recent series, and the location of the tensor."""

    tensor_name: str = field(
        default="", metadata=stored(TEXT, "The subject of the leading finding; may be empty.", name="TensorName")
    )
    worker: str = field(default="", metadata=stored(TEXT, "The worker that saved it.", name="Worker"))
    step: int = field(default=0, metadata=stored(COUNT, "The step at which it was judged.", name="Step"))
    since_step: int = field(
        default=0, metadata=stored(COUNT, "The first step at which any finding held.", name="SinceStep")
    )
    comparison: str = field(
        default="", metadata=stored(TEXT, "`mean |gradient|: 3.1e-12, below the limit of 1e-07`.", name="Comparison")
    )
    affected: int = field(default=0, metadata=stored(COUNT, "The number of subjects that were found.", name="Affected"))
    statistics: Mapping[str, float] = field(
        default_factory=dict,
        metadata=stored(NUMBERS, "Further numbers about the subject at `Step`.", name="Statistics"),
    )
    series: tuple[tuple[int, float], ...] = field(
        default=(), metadata=stored(series(most=MOST_EVIDENCE_POINTS), "[step, value], oldest first.", name="Series")
    )
    tensor_uri: str = field(default="", metadata=stored(TEXT, "The address of the tensor.", name="TensorUri"))
    checkpoint: str = field(
        default="",
        metadata=stored(
            TEXT, "The last checkpoint before the issue, as in a verdict.", name="Checkpoint", optional=True
        ),
    )
    checkpoint_step: int = field(
        default=0,
        metadata=stored(
            COUNT, "The last step before that checkpoint was written.", name="CheckpointStep", optional=True
        ),
    )


JOB = flat_record(TrainingJob)
DETAILS = Kind(
    {"type": "string", "maxLength": MOST_STATUS_DETAILS}, Fields.text, lambda text: text[:MOST_STATUS_DETAILS]
)


@dataclass(frozen=True)
class RuleEvaluation:
    """The status of one rule of one training job, from either event.

    actions         actions that the event names; None if it names none: the job's tag or the deployment's default
                    decides
    tagged_actions  actions in the job's tag trackside:actions; None without such a tag
    """

    job: TrainingJob = field(metadata=stored(JOB))
    configuration_name: str = field(
        metadata=stored(TEXT, "The name of the rule's configuration.", name="RuleConfigurationName")
    )
    status: RuleEvaluationStatus = field(
        metadata=stored(choice(RuleEvaluationStatus), "AWS's own words.", name="RuleEvaluationStatus")
    )
    details: str = field(metadata=stored(DETAILS, "The verdict's message.", name="StatusDetails", absent=""))
    rule_id: str = field(default="", metadata=stored(TEXT, "The rule's id.", name="Rule"))
    severity: Severity = field(
        default=Severity.CRITICAL, metadata=stored(choice(Severity), "Only `critical` may stop a run.", name="Severity")
    )
    actions: tuple[Action, ...] | None = field(
        default=None,
        metadata=stored(
            choices(Action), "The actions that were asked for, and may be done.", name="Actions", absent=()
        ),
    )
    tagged_actions: tuple[Action, ...] | None = None
    terms: ActionTerms = field(
        default=NO_TERMS,
        metadata=stored(TERMS, "Terms of the actions, where the rule has its own.", name="ActionTerms", optional=True),
    )
    what_to_do: tuple[str, ...] = field(
        default=(), metadata=stored(TEXTS, "Steps to try, best first.", name="WhatToDo")
    )
    evaluation_job_arn: str = field(
        default="",
        metadata=stored(TEXT, "The processing job that judged; may be empty.", name="RuleEvaluationJobArn"),
    )
    run_uri: str = field(default="", metadata=stored(TEXT, "The location of the run.", name="Run"))
    modified_at: float = field(
        default=0.0,
        metadata=stored(
            MILLISECONDS, "In milliseconds since 1970-01-01 UTC, as in AWS's events.", name="LastModifiedTime"
        ),
    )
    evidence: Evidence = field(default=Evidence(), metadata=stored(record(Evidence), name="Evidence"))
    sequence: int = field(
        default=0,
        metadata=stored(
            COUNT,
            "The place of this status among issues and recoveries of the rule, by the evaluator's count; left out "
            "where it has none.",
            name="Sequence",
            optional=True,
        ),
    )

    @property
    def found_issues(self) -> bool:
        """True if the status is IssuesFound."""
        return self.status is RuleEvaluationStatus.ISSUES_FOUND

    @property
    def finding_id(self) -> str:
        """The identity of the issue within the job: equal for all deliveries, new when the rule fires again.

        An event of SageMaker Debugger names no step, so all issues of one of its rules share one identity.
        """
        return (
            self.configuration_name if self.actions is None else f"{self.configuration_name}@{self.evidence.since_step}"
        )

    def requested_actions(self, default: tuple[Action, ...]) -> tuple[Action, ...]:
        """Return the actions of the event, else of the job's tag, else `default`."""
        for actions in (self.actions, self.tagged_actions):
            if actions is not None:
                return actions
        return default

    def to_detail(self) -> dict[str, Any]:
        """Return the `detail` of our event: plain JSON values, well under EventBridge's 256 KB."""
        return {"Version": VERSION, **document_of(self)}


def evaluation_of(verdict: Verdict, *, job: TrainingJob, run_uri: str, evaluation_job_arn: str = "") -> RuleEvaluation:
    """Return a verdict in the form of the event bus."""
    lead = verdict.lead
    evidence = (
        Evidence(
            tensor_name=lead.subject,
            worker=lead.worker,
            step=lead.step,
            since_step=verdict.since_step,
            comparison=lead.comparison,
            affected=verdict.affected,
            statistics=lead.statistics,
            series=lead.series,
            tensor_uri=f"{run_uri}/{verdict.tensor_key}" if verdict.tensor_key else "",
            checkpoint=verdict.checkpoint,
            checkpoint_step=verdict.checkpoint_step,
        )
        if lead
        else Evidence(step=verdict.step, since_step=verdict.since_step)
    )
    return RuleEvaluation(
        job=job,
        configuration_name=verdict.configuration_name,
        status=STATUS_OF_OUTCOME[verdict.outcome],
        details=verdict.message,
        rule_id=verdict.rule_id,
        severity=verdict.severity,
        actions=verdict.actions,
        terms=verdict.terms,
        what_to_do=verdict.advice,
        evaluation_job_arn=evaluation_job_arn,
        run_uri=run_uri,
        modified_at=verdict.detected_at,
        evidence=evidence,
        sequence=_sequence_of(verdict),
    )


def _sequence_of(verdict: Verdict) -> int:
    """Return 2 for the first issue, 3 for its recovery, 4 for the second issue, ...; 0 for a verdict of another kind.

    The evaluator stores the number of issues with its progress, so its successor continues the count, by any clock.
    """
    if verdict.state is State.RECOVERED:
        return 2 * verdict.occurrence + 1
    return 2 * verdict.occurrence if verdict.outcome is Outcome.ISSUE_FOUND else 0


def read_rule_evaluations(event: Mapping[str, Any], *, and_of_ended_jobs: bool = False) -> tuple[RuleEvaluation, ...]:
    """Return every rule status in an EventBridge event of either shape.

    AWS repeats the old statuses on each later state change of a job. So an event of AWS about a job that is not
    InProgress has no statuses here, unless `and_of_ended_jobs` is set, for readers that keep a record and do not act.

    Raises:
        ConfigurationError: It is another kind of event, or malformed. Lists every problem at once.
    """
    subject = _subject(event)
    kind = event.get("detail-type")
    if kind not in (DETAIL_TYPE, AWS_DETAIL_TYPE):
        fix = f"Expected {DETAIL_TYPE!r} or {AWS_DETAIL_TYPE!r}."
        raise ConfigurationError([Problem("detail-type", f"is {kind!r}.", fix)], subject=subject)
    fields = detail_of(event)
    if kind == DETAIL_TYPE:
        evaluations: tuple[RuleEvaluation, ...] = (record_of(RuleEvaluation, fields),)
    else:
        evaluations = _read_official(fields)
        if not and_of_ended_jobs and fields.text("TrainingJobStatus") != "InProgress":
            evaluations = ()
    fields.finish(subject=subject)
    return evaluations


@dataclass(frozen=True)
class TrainingJobStateChange:
    """A change in the state of a training job. Tags opt a job in: `trackside:run` is the location of its run.

    Moments are seconds since the epoch. Values that the event does not have are 0 or "".
    """

    job: TrainingJob
    status: str
    secondary_status: str
    tags: Mapping[str, str]
    created_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0
    modified_at: float = 0.0
    failure_reason: str = ""
    instance_type: str = ""
    instance_count: int = 0
    max_runtime_seconds: int = 0

    @property
    def has_ended(self) -> bool:
        """True once the job will never write again."""
        return self.status in TERMINAL_JOB_STATUSES


def read_training_job_state_change(event: Mapping[str, Any]) -> TrainingJobStateChange:
    """Return the content of AWS's `SageMaker Training Job State Change`.

    Raises:
        ConfigurationError: The event is malformed.
    """
    fields = detail_of(event)
    resources = _part(fields, "ResourceConfig")
    tags = {str(key): str(value) for key, value in _object(fields, "Tags").items()}
    change = TrainingJobStateChange(
        job=replace(_read_job(fields), continues=tags.get(RESUMED_FROM_TAG, "")),
        status=fields.text("TrainingJobStatus"),
        secondary_status=fields.text("SecondaryStatus", ""),
        tags=tags,
        created_at=moment(fields, "CreationTime"),
        started_at=moment(fields, "TrainingStartTime"),
        ended_at=moment(fields, "TrainingEndTime"),
        modified_at=moment(fields, "LastModifiedTime"),
        failure_reason=fields.text("FailureReason", ""),
        instance_type=resources.text("InstanceType", ""),
        instance_count=int(_number(resources, "InstanceCount")),
        max_runtime_seconds=int(_number(_part(fields, "StoppingCondition"), "MaxRuntimeInSeconds")),
    )
    fields.finish(subject=_subject(event))
    return change


def detail_of(event: Mapping[str, Any]) -> Fields:
    """Return the fields in the detail of an event. Null counts as absent: AWS writes nothing, null or "" for it."""
    return Fields(_without_nulls(event.get("detail"), deep=3), where="detail")


def moment(fields: Fields, name: str) -> float:
    """Return a moment in seconds since the epoch, 0 if absent.

    AWS writes milliseconds as a number, and in its examples as a text.
    """
    return _number(fields, name) / 1000


def _without_nulls(value: Any, *, deep: int) -> Any:
    """Remove nulls down to the depth that is read: objects in lists of the detail."""
    if deep and isinstance(value, Mapping):
        return {name: _without_nulls(inner, deep=deep - 1) for name, inner in value.items() if inner is not None}
    if deep and isinstance(value, list):
        return [_without_nulls(inner, deep=deep - 1) for inner in value]
    return value


def _subject(event: Mapping[str, Any]) -> str:
    return f"The event {str(event.get('id', ''))[:MOST_ID_CHARACTERS]!r}"


def _read_job(fields: Fields) -> TrainingJob:
    created_at = int(moment(fields, "CreationTime"))
    return TrainingJob(name=fields.text("TrainingJobName"), arn=fields.text("TrainingJobArn"), created_at=created_at)


def _part(fields: Fields, name: str) -> Fields:
    return Fields(_object(fields, name), where=f"detail.{name}", problems=fields.problems)


def _object(fields: Fields, name: str) -> Mapping[str, Any]:
    """Return an object that may be absent; AWS writes "" for some absent ones."""
    return fields.mapping(name, {}) if fields.is_object(name) else {}


def _number(fields: Fields, name: str) -> float:
    """Return a number, or 0 for anything else: it is no reason to refuse the event."""
    return fields.number(name) if fields.is_number(name) else float(fields.digits(name) or 0)


def _read_official(fields: Fields) -> tuple[RuleEvaluation, ...]:
    job, tagged = _read_job(fields), _tagged_actions(fields)

    def read_status(status: Fields) -> RuleEvaluation:
        return RuleEvaluation(
            job=job,
            configuration_name=status.text("RuleConfigurationName"),
            status=status.choice("RuleEvaluationStatus", RuleEvaluationStatus),
            details=status.text("StatusDetails", ""),
            evaluation_job_arn=status.text("RuleEvaluationJobArn", ""),
            modified_at=moment(status, "LastModifiedTime"),
            tagged_actions=tagged,
        )

    return fields.items("DebugRuleEvaluationStatuses", read_status, required=False)


def _tagged_actions(fields: Fields) -> tuple[Action, ...] | None:
    """Return the actions in the job's tag. A misspelled tag is ignored, so that the issue is still reported."""
    try:
        return read_actions(str(_object(fields, "Tags").get(ACTIONS_TAG, "")))
    except ConfigurationError:
        return None
