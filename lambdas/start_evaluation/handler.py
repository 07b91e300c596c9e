"""A training job that asked for it has started: start what judges it, a processing job and one for each rule file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from lambdas.start_evaluation.logic import decide, decide_custom
from lambdas.start_evaluation.preparation import Preparation
from lambdas.start_evaluation.processing_job import start
from lambdas.start_evaluation.run_request import read_request
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.event import read_training_job_state_change


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = StartEvaluationSettings.from_environment()
    preparation = Preparation(read_training_job_state_change(event), settings)
    yield from preparation.run()
    if preparation.is_to_be_judged:
        yield from _judge(preparation, settings)


def _judge(preparation: Preparation, settings: StartEvaluationSettings) -> Iterator[Done | Nothing]:
    decision = decide(preparation.change, settings)
    if isinstance(decision, Nothing):
        yield preparation.complain(decision.reason) if decision.surprising else decision
        return
    yield start(decision)
    request = read_request(decision.run)  # after the evaluator's start, which needs no answer of S3
    yield from preparation.complaints_about(request)
    if settings.custom_rules_from and not isinstance(request, Nothing):
        wanted = decide_custom(preparation.change.job, decision.run, request, settings)
        yield from (each if isinstance(each, Nothing) else start(each) for each in wanted)
