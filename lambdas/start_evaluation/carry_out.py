"""Does what was decided: starts processing jobs, opens leases, says who is no longer watched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.start_evaluation.chain import GiveUp
from lambdas.start_evaluation.evaluators import OpenLease
from lambdas.start_evaluation.leases import open_lease
from lambdas.start_evaluation.logic import StartEvaluation
from lambdas.start_evaluation.settings import StartEvaluationSettings

Decision = StartEvaluation | OpenLease | GiveUp | Nothing


def carry_out(decision: Decision, event: Mapping[str, Any], settings: StartEvaluationSettings) -> Done | Nothing:
    if isinstance(decision, StartEvaluation):
        return _start(decision)
    if isinstance(decision, OpenLease):
        return open_lease(decision, settings)
    if isinstance(decision, GiveUp):
        client("sqs").send_message(QueueUrl=settings.failed_queue_url, MessageBody=json.dumps(event))
        return Nothing(decision.reason, surprising=True)
    return decision


def _start(start: StartEvaluation) -> Done | Nothing:
    try:
        client("sagemaker").create_processing_job(**start.request)
    except ClientError as error:
        if code_of(error) != "ResourceInUse":
            raise
        return Nothing(f"{start.name} was started by an earlier delivery.")
    instead = f", for the one before it ended: {start.reason}" if start.reason else "."
    return Done(f"Started {start.name}{instead}")
