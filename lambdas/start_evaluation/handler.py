"""A training job that asked for it has started: start the one processing job that judges it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from lambdas.start_evaluation.logic import StartEvaluation, decide
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.event import read_training_job_state_change


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    decision = decide(read_training_job_state_change(event), StartEvaluationSettings.from_environment())
    yield decision if isinstance(decision, Nothing) else _start(decision)


def _start(start: StartEvaluation) -> Done | Nothing:
    try:
        client("sagemaker").create_processing_job(**start.request)
    except ClientError as error:
        if code_of(error) != "ResourceInUse":
            raise
        return Nothing(f"{start.name} was started by an earlier delivery.")
    return Done(f"Started {start.name}.")
