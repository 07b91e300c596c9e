"""Starts a processing job, once."""

from __future__ import annotations

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.start_evaluation.logic import StartEvaluation


def start(wanted: StartEvaluation) -> Done | Nothing:
    """A job of that name is the same job: its name holds the training job and the rule."""
    try:
        client("sagemaker").create_processing_job(**wanted.request)
    except ClientError as error:
        if code_of(error) != "ResourceInUse":
            raise
        return Nothing(f"{wanted.name} was started by an earlier delivery.")
    instead = f", for the one before it ended: {wanted.reason}" if wanted.reason else "."
    return Done(f"Started {wanted.name}{instead}")
