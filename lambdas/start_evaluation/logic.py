"""Which processing job judges a training job that has started."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lambdas.shared.decisions import Nothing
from lambdas.shared.runs import find_run
from lambdas.start_evaluation.settings import NAME_PREFIX, StartEvaluationSettings
from trackside.contracts.event import TrainingJob, TrainingJobStateChange
from trackside.contracts.run_layout import RunLocation

MOST_NAME_CHARACTERS = 63  # API_CreateProcessingJob: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}
MOST_ENVIRONMENT_VALUE = 256  # API_CreateProcessingJob: of each value of Environment
HASH_CHARACTERS = 10


@dataclass(frozen=True)
class StartEvaluation:
    """Start the processing job of that name; `request` is the whole of CreateProcessingJob's."""

    name: str
    request: Mapping[str, Any]


def decide(change: TrainingJobStateChange, settings: StartEvaluationSettings) -> StartEvaluation | Nothing:
    """Starts for a running job that is tagged with a run of this deployment, and for nothing else."""
    if change.status != "InProgress":
        return Nothing(f"{change.job.name} is {change.status}, so there is nothing to watch.")
    run = find_run(change, bucket=settings.run_bucket)
    if isinstance(run, Nothing):
        return run
    environment = {
        "TRACKSIDE_RUN": run.uri,
        "TRACKSIDE_EVENT_BUS": settings.event_bus,
        "TRAINING_JOB_NAME": change.job.name,
        "TRAINING_JOB_ARN": change.job.arn,
    }
    too_long = [name for name, value in environment.items() if len(value) > MOST_ENVIRONMENT_VALUE]
    if too_long:
        what = (
            f"{', '.join(too_long)} of {change.job.name} would be longer than the {MOST_ENVIRONMENT_VALUE} characters"
        )
        return Nothing(f"{what} that a processing job's environment holds. Choose a shorter place.", surprising=True)
    name = processing_job_name(change.job)
    return StartEvaluation(name, _request(name, change.job, run, environment, settings))


def processing_job_name(job: TrainingJob) -> str:
    """`trackside-<training job>-<hash of its ARN>`, at most 63 characters: the same for every delivery of an event,
    and another for every other job, however long and alike their names are."""
    digest = hashlib.sha256(job.arn.encode()).hexdigest()[:HASH_CHARACTERS]
    room = MOST_NAME_CHARACTERS - len(NAME_PREFIX) - HASH_CHARACTERS - 1
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", job.name)[:room].strip("-")
    return f"{NAME_PREFIX}{readable}-{digest}" if readable else f"{NAME_PREFIX}{digest}"


def _request(
    name: str,
    job: TrainingJob,
    run: RunLocation,
    environment: Mapping[str, str],
    settings: StartEvaluationSettings,
) -> dict[str, Any]:
    return {
        "ProcessingJobName": name,
        "AppSpecification": {"ImageUri": settings.image_uri},
        "RoleArn": settings.role_arn,
        "Environment": dict(environment),
        "ProcessingResources": {
            "ClusterConfig": {
                "InstanceCount": 1,
                "InstanceType": settings.instance_type,
                "VolumeSizeInGB": settings.volume_gb,
            }
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": settings.max_runtime_seconds},
        "Tags": [
            {"Key": "trackside:training-job", "Value": job.arn},
            {"Key": "trackside:run", "Value": run.uri},
        ],
    }
