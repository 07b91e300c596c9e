"""Starts a processing job, once, and not too soon after another."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.pace import pace
from lambdas.shared.processing_jobs import name_of_later_job
from lambdas.start_evaluation import started
from lambdas.start_evaluation.logic import StartEvaluation
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.event import TrainingJob


def start(wanted: StartEvaluation, settings: StartEvaluationSettings, context: LambdaContext) -> Done | Nothing:
    """Start the job. Its name holds the training job and the rule, so one that has the name is the same job.

    Unless it judged an earlier training job of the same name, which was deleted: then this one gets another name.

    Errors: `ClientError`.
    """
    if started.is_known(wanted.name, wanted.job):
        return Nothing(f"{wanted.name} was started by an earlier delivery.")
    name = wanted.name
    is_new = _create(wanted, name, settings, context)
    if not is_new and _judged_earlier_job(name, wanted.job):
        name = name_of_later_job(name, wanted.job)
        is_new = _create(wanted, name, settings, context)
    started.note(wanted.name, wanted.job)
    if not is_new:
        return Nothing(f"{name} was started by an earlier delivery.")
    instead = f", for the one before it ended: {wanted.reason}" if wanted.reason else "."
    return Done(f"Started {name}{instead}")


def _create(wanted: StartEvaluation, name: str, settings: StartEvaluationSettings, context: LambdaContext) -> bool:
    """Create the processing job under that name. Return False if one has it."""
    pace("start", pause_milliseconds=settings.pause_milliseconds, context=context)
    try:
        client("sagemaker").create_processing_job(**{**wanted.request, "ProcessingJobName": name})
    except ClientError as error:
        if code_of(error) != "ResourceInUse":
            raise
        return False
    return True


def _judged_earlier_job(name: str, job: TrainingJob) -> bool:
    """Return True if the processing job is older than the training job."""
    if not job.created_at:
        return False
    created_at = client("sagemaker").describe_processing_job(ProcessingJobName=name)["CreationTime"]
    return bool(created_at.timestamp() < job.created_at)
