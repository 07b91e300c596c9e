"""A training job that asked for it has started: start what judges it. A link of a chain has ended: start the next."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared.clients import client
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from lambdas.start_evaluation.chain import GiveUp, decide_next, read_end
from lambdas.start_evaluation.evaluators import OpenLease, decide_evaluators
from lambdas.start_evaluation.leases import open_lease
from lambdas.start_evaluation.logic import StartEvaluation, decide, decide_custom
from lambdas.start_evaluation.preparation import Preparation
from lambdas.start_evaluation.processing_job import start
from lambdas.start_evaluation.run_request import read_request
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.evaluator_mode import PER_RULE
from trackside.contracts.event import PROCESSING_DETAIL_TYPE, read_training_job_state_change


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = StartEvaluationSettings.from_environment()
    if event.get("detail-type") == PROCESSING_DETAIL_TYPE:
        yield _act(decide_next(read_end(event), settings), event, settings, context)
        return
    preparation = Preparation(read_training_job_state_change(event), settings)
    yield from preparation.run()
    if preparation.is_to_be_judged:
        yield from _judge(preparation, event, settings, context)


def _judge(
    preparation: Preparation, event: Mapping[str, Any], settings: StartEvaluationSettings, context: LambdaContext
) -> Iterator[Done | Nothing]:
    job, decision = preparation.change.job, decide(preparation.change, settings)
    if isinstance(decision, Nothing):
        yield preparation.complain(decision.reason) if decision.surprising else decision
        return
    request = read_request(decision.run) if settings.evaluator_mode == PER_RULE else None
    for each in decide_evaluators(decision, job, request, settings, now=time.time()):
        yield _act(each, event, settings, context)
    request = request or read_request(decision.run)  # after the evaluator's start, which needs no answer of S3
    yield from preparation.complaints_about(request)
    if settings.custom_rules_from and not isinstance(request, Nothing):
        wanted = decide_custom(job, decision.run, request, settings)
        yield from (_act(each, event, settings, context) for each in wanted)


def _act(
    decision: StartEvaluation | OpenLease | GiveUp | Nothing,
    event: Mapping[str, Any],
    settings: StartEvaluationSettings,
    context: LambdaContext,
) -> Done | Nothing:
    if isinstance(decision, StartEvaluation):
        return start(decision, settings, context)
    if isinstance(decision, OpenLease):
        return open_lease(decision, settings)
    if isinstance(decision, GiveUp):
        for queue_url in filter(None, (settings.failed_queue_url, settings.notify_queue_url)):
            client("sqs").send_message(QueueUrl=queue_url, MessageBody=json.dumps(event))
        return Nothing(decision.reason, surprising=True)
    return decision
