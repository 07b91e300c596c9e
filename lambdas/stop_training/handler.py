"""A rule that asks for it found an issue: stop the training job, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of, message_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.once import once
from lambdas.shared.reaction import reaction
from lambdas.stop_training.logic import StopRun, decide, read_refusal
from lambdas.stop_training.settings import StopTrainingSettings
from trackside.contracts.action import Action
from trackside.contracts.event import read_rule_evaluations


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = StopTrainingSettings.from_environment()
    stop_once = partial(once, Action.STOP_TRAINING, table=settings.idempotency_table, context=context)
    for evaluation in read_rule_evaluations(event):
        decision = decide(evaluation, settings)
        yield decision if isinstance(decision, Nothing) else stop_once(evaluation, partial(_stop, decision))


def _stop(stop: StopRun) -> Done | Nothing:
    try:
        client("sagemaker").stop_training_job(TrainingJobName=stop.job_name)
    except ClientError as error:
        refusal = read_refusal(stop.job_name, code=code_of(error), message=message_of(error))
        if refusal is None:
            raise
        return refusal
    return Done(f"Stopped {stop.job_name}.")
