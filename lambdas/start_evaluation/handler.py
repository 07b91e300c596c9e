"""A training job that asked for it has started: start what judges it, a processing job and one for each rule file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.pace import pace
from lambdas.shared.reaction import reaction
from lambdas.start_evaluation.logic import StartEvaluation, decide, decide_custom
from lambdas.start_evaluation.run_request import read_request
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.event import read_training_job_state_change


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    change, settings = read_training_job_state_change(event), StartEvaluationSettings.from_environment()
    decision = decide(change, settings)
    if isinstance(decision, StartEvaluation):
        pace("start", pause_milliseconds=settings.pause_milliseconds, context=context)
    yield decision if isinstance(decision, Nothing) else _start(decision)
    if isinstance(decision, StartEvaluation) and settings.custom_rules_from:
        request = read_request(decision.run)  # after the evaluator's start, which needs no answer of S3
        wanted = (
            [request] if isinstance(request, Nothing) else decide_custom(change.job, decision.run, request, settings)
        )
        yield from (each if isinstance(each, Nothing) else _start(each) for each in wanted)


def _start(start: StartEvaluation) -> Done | Nothing:
    try:
        client("sagemaker").create_processing_job(**start.request)
    except ClientError as error:
        if code_of(error) != "ResourceInUse":
            raise
        return Nothing(f"{start.name} was started by an earlier delivery.")
    return Done(f"Started {start.name}.")
