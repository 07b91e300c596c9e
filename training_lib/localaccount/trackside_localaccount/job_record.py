"""The record of one SageMaker job: its request, its state, and how both look in answers and in events.

Shapes: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html,
API_DescribeProcessingJob.html, and https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
(times in milliseconds).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

IN_PROGRESS, COMPLETED, FAILED, STOPPING, STOPPED = "InProgress", "Completed", "Failed", "Stopping", "Stopped"
TERMINAL = (COMPLETED, FAILED, STOPPED)
MOST_FAILURE_REASON = 1024


@dataclass(frozen=True)
class JobKind:
    """How the two kinds of job differ in names."""

    name: str  # "Training"
    resource: str  # "training-job"
    event_source_type: str

    @property
    def noun(self) -> str:
        """The noun of AWS's messages: `training job`."""
        return self.resource.replace("-", " ")


TRAINING = JobKind("Training", "training-job", "SageMaker Training Job State Change")
PROCESSING = JobKind("Processing", "processing-job", "SageMaker Processing Job State Change")


@dataclass
class Job:
    """One job. `Jobs` changes it, under its lock; `tags` is the list that moto's AddTags and ListTags use."""

    kind: JobKind
    name: str
    arn: str
    request: Mapping[str, Any]
    folder: Path
    created_at: float
    tags: list[dict[str, str]] = field(default_factory=list)
    status: str = IN_PROGRESS
    secondary_status: str = "Starting"
    transitions: list[dict[str, Any]] = field(default_factory=list)
    started_at: float | None = None
    ended_at: float | None = None
    modified_at: float = 0.0
    failure_reason: str = ""
    exit_message: str = ""
    rule_statuses: list[dict[str, Any]] = field(default_factory=list)

    @property
    def log_file(self) -> Path:
        """The output of the process, stdout and stderr."""
        return self.folder / "log.txt"

    def describe(self) -> dict[str, Any]:
        """The answer of DescribeTrainingJob or DescribeProcessingJob."""
        kind = self.kind.name
        known = {
            f"{kind}JobArn": self.arn,
            f"{kind}JobStatus": self.status,
            "CreationTime": _moment(self.created_at),
            "LastModifiedTime": _moment(self.modified_at),
            f"{kind}StartTime": _moment(self.started_at),
            f"{kind}EndTime": _moment(self.ended_at),
            "FailureReason": self.failure_reason or None,
        }
        if self.kind is TRAINING:
            known |= self._training_fields()
        else:
            known["ExitMessage"] = self.exit_message or None
        request = {name: value for name, value in self.request.items() if name != "Tags"}
        return {name: value for name, value in (request | known).items() if value is not None}

    def event_detail(self) -> dict[str, Any]:
        """The `detail` of the state change event: times in milliseconds, tags as a map."""
        detail: dict[str, Any] = _in_milliseconds(self.describe())
        return detail | {"Tags": {tag["Key"]: tag["Value"] for tag in self.tags}}

    def summary(self) -> dict[str, Any]:
        """One entry of ListTrainingJobs or ListProcessingJobs."""
        kind = self.kind.name
        names = (f"{kind}JobName", f"{kind}JobArn", f"{kind}JobStatus", "CreationTime", "LastModifiedTime")
        names += (
            f"{kind}EndTime",
            *(("SecondaryStatus",) if self.kind is TRAINING else ("FailureReason", "ExitMessage")),
        )
        description = self.describe()
        return {name: description[name] for name in names if name in description}

    def _training_fields(self) -> dict[str, Any]:
        output = self.request.get("OutputDataConfig", {}).get("S3OutputPath", "").rstrip("/")
        return {
            "SecondaryStatus": self.secondary_status,
            "SecondaryStatusTransitions": self.transitions,
            "ModelArtifacts": {"S3ModelArtifacts": f"{output}/{self.name}/output/model.tar.gz"},
            "DebugRuleEvaluationStatuses": self.rule_statuses or None,
        }


def new_transition(secondary_status: str, at: float) -> dict[str, Any]:
    """A member of SecondaryStatusTransitions that has just begun."""
    messages = {"Starting": "Preparing the instances for training", "Training": "Training image download completed."}
    moment = _moment(at)
    message = messages.get(secondary_status, f"Training job {secondary_status.lower()}")
    return {"Status": secondary_status, "StartTime": moment, "StatusMessage": message}


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=timezone.utc)


def _in_milliseconds(value: Any) -> Any:
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    if isinstance(value, dict):
        return {name: _in_milliseconds(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_in_milliseconds(inner) for inner in value]
    return value
