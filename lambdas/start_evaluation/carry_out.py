"""Carries out decisions: starts evaluators, or reports that a run has none any more."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.shared.clients import client
from lambdas.shared.decisions import Done, Nothing
from lambdas.start_evaluation.chain import GiveUp, NotifyOwner
from lambdas.start_evaluation.evaluators import OpenLease, decide_evaluators
from lambdas.start_evaluation.leases import open_lease
from lambdas.start_evaluation.logic import StartEvaluation, decide, decide_custom
from lambdas.start_evaluation.preparation import Preparation
from lambdas.start_evaluation.processing_job import start
from lambdas.start_evaluation.run_request import read_request
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.deployment.evaluators import PER_RULE


class CarryOut:
    """The actions for one event. Errors of its methods: `ClientError`; the message comes again."""

    def __init__(self, event: Mapping[str, Any], settings: StartEvaluationSettings, context: LambdaContext) -> None:
        self._event, self._settings, self._context = event, settings, context

    def judge(self, preparation: Preparation) -> Iterator[Done | Nothing]:
        """Start the evaluators of a prepared job."""
        job, decision = preparation.change.job, decide(preparation.change, self._settings)
        if isinstance(decision, Nothing):
            yield preparation.complain(decision.reason) if decision.surprising else decision
            return
        request = read_request(decision.run) if self._settings.evaluator_mode == PER_RULE else None
        for each in decide_evaluators(decision, job, request, self._settings, now=time.time()):
            yield self.act(each)
        request = request or read_request(decision.run)  # after the evaluator's start, which needs no answer of S3
        yield from preparation.complaints_about(request)
        if self._settings.custom_rules_from and not isinstance(request, Nothing):
            yield from map(self.act, decide_custom(job, decision.run, request, self._settings))

    def act(self, decision: StartEvaluation | OpenLease | GiveUp | NotifyOwner | Nothing) -> Done | Nothing:
        """Carry out the decision, and return a sentence about it."""
        if isinstance(decision, StartEvaluation):
            return start(decision, self._settings, self._context)
        if isinstance(decision, OpenLease):
            return open_lease(decision, self._settings)
        if isinstance(decision, NotifyOwner):
            event = {**self._event, "detail": {**self._event["detail"], "ExitMessage": decision.reason}}
            client("sqs").send_message(QueueUrl=self._settings.notify_queue_url, MessageBody=json.dumps(event))
            return Done(f"The owner is notified: {decision.reason}")
        if isinstance(decision, GiveUp):
            for queue_url in filter(None, (self._settings.failed_queue_url, self._settings.notify_queue_url)):
                client("sqs").send_message(QueueUrl=queue_url, MessageBody=json.dumps(self._event))
            return Nothing(decision.reason, surprising=True)
        return decision
