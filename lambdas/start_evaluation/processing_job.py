"""Starts a processing job, once, and not too soon after another."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.pace import pace
from lambdas.start_evaluation import started
from lambdas.start_evaluation.logic import StartEvaluation
from lambdas.start_evaluation.settings import StartEvaluationSettings


def start(wanted: StartEvaluation, settings: StartEvaluationSettings, context: LambdaContext) -> Done | Nothing:
    """Start the job. A job of that name is the same job: its name holds the training job and the rule."""
    if started.is_known(wanted.name):
        return Nothing(f"{wanted.name} was started by an earlier delivery.")
    pace("start", pause_milliseconds=settings.pause_milliseconds, context=context)
    try:
        client("sagemaker").create_processing_job(**wanted.request)
    except ClientError as error:
        if code_of(error) != "ResourceInUse":
            raise
        started.note(wanted.name)
        return Nothing(f"{wanted.name} was started by an earlier delivery.")
    started.note(wanted.name)
    instead = f", for the one before it ended: {wanted.reason}" if wanted.reason else "."
    return Done(f"Started {wanted.name}{instead}")
