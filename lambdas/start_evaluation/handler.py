"""A training job that asked for it has started: start what judges it. A link of a chain has ended: start the next."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from lambdas.start_evaluation import started
from lambdas.start_evaluation.chain import GiveUp, decide_next, read_end
from lambdas.start_evaluation.evaluators import OpenLease, decide_evaluators
from lambdas.start_evaluation.leases import open_lease
from lambdas.start_evaluation.logic import StartEvaluation, decide, decide_custom
from lambdas.start_evaluation.run_request import read_request
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.evaluator_mode import PER_RULE
from trackside.contracts.event import PROCESSING_DETAIL_TYPE, read_training_job_state_change


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = StartEvaluationSettings.from_environment()
    if event.get("detail-type") == PROCESSING_DETAIL_TYPE:
        yield _act(decide_next(read_end(event), settings), event, settings)
        return
    change = read_training_job_state_change(event)
    decision = decide(change, settings)
    if isinstance(decision, Nothing):
        yield decision
        return
    request = read_request(decision.run) if settings.evaluator_mode == PER_RULE else None
    for each in decide_evaluators(decision, change.job, request, settings, now=time.time()):
        yield _act(each, event, settings)
    if settings.custom_rules_from:
        request = request or read_request(decision.run)  # after the evaluator's start, which needs no answer of S3
        wanted = (
            [request] if isinstance(request, Nothing) else decide_custom(change.job, decision.run, request, settings)
        )
        yield from (each if isinstance(each, Nothing) else _start(each) for each in wanted)


def _act(
    decision: StartEvaluation | OpenLease | GiveUp | Nothing,
    event: Mapping[str, Any],
    settings: StartEvaluationSettings,
) -> Done | Nothing:
    if isinstance(decision, StartEvaluation):
        return _start(decision)
    if isinstance(decision, OpenLease):
        return open_lease(decision, settings)
    if isinstance(decision, GiveUp):
        client("sqs").send_message(QueueUrl=settings.failed_queue_url, MessageBody=json.dumps(event))
        return Nothing(decision.reason, surprising=True)
    return decision


def _start(start: StartEvaluation) -> Done | Nothing:
    if started.is_known(start.name):
        return Nothing(f"{start.name} was started by an earlier delivery.")
    try:
        client("sagemaker").create_processing_job(**start.request)
    except ClientError as error:
        if code_of(error) != "ResourceInUse":
            raise
        started.note(start.name)
        return Nothing(f"{start.name} was started by an earlier delivery.")
    started.note(start.name)
    instead = f", for the one before it ended: {start.reason}" if start.reason else "."
    return Done(f"Started {start.name}{instead}")
