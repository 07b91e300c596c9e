"""Which training job is to be stopped, and what AWS's refusal to stop it means."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lambdas.shared.asked import reason_not_to
from lambdas.shared.decisions import Nothing
from lambdas.stop_training.settings import StopTrainingSettings
from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluation

_JOB_ARN = re.compile(
    r"arn:[a-z-]+:sagemaker:[a-z0-9-]+:\d{12}:training-job/(?P<name>[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62})"
)


@dataclass(frozen=True)
class StopRun:
    """Stop the training job of exactly this name."""

    job_name: str


def decide(evaluation: RuleEvaluation, settings: StopTrainingSettings) -> StopRun | Nothing:
    """Stops the job that the event's ARN names; never one that merely resembles it."""
    refusal = reason_not_to(Action.STOP_TRAINING, evaluation, default_actions=settings.default_actions)
    if refusal:
        return refusal
    match = _JOB_ARN.fullmatch(evaluation.job.arn)
    if match is None:
        return Nothing(f"{evaluation.job.arn!r} is not the ARN of a training job.", surprising=True)
    if settings.dry_run:
        return Nothing(
            f"dry run: {match['name']} would be stopped for {evaluation.configuration_name}.", surprising=True
        )
    return StopRun(match["name"])


def read_refusal(job_name: str, *, code: str, message: str) -> Nothing | None:
    """What StopTrainingJob's error means: None if trying again may help.

    AWS says "The request was rejected because the training job is in status Stopped." (seen in awslabs/benchmark-ai
    #928) and "Requested resource not found.", both as ValidationException.
    """
    if code == "ValidationException" and "in status" in message:
        return Nothing(f"{job_name} is stopping or has ended: {message}")
    if code == "ResourceNotFound" or (code == "ValidationException" and "not found" in message.lower()):
        return Nothing(f"there is no training job {job_name}: {message}", surprising=True)
    return None
