"""Lets another training job go on in the place of one that a finding stopped, once, and records it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of, is_missing, message_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.once import once
from lambdas.shared.pace import pace
from lambdas.shared.run_table import RunTable
from lambdas.stop_training import messages
from lambdas.stop_training.job_account import account_to_enter
from lambdas.stop_training.logic import Known, Wait, prohibition
from lambdas.stop_training.settings import StopTrainingSettings
from lambdas.stop_training.successor import Successor, reason_to_leave, successor_of
from trackside.contracts.action import Action
from trackside.contracts.deployment.stop_record import DecisionRecord, StopOutcome
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.event import TERMINAL_JOB_STATUSES, RuleEvaluation
from trackside.contracts.run.resumption import ORDER_VARIABLE, Resumption

LOOK_SECONDS = 30  # a job ends within two minutes of its stop, and then its checkpoints are in S3
MOST_WAIT_SECONDS = 2 * 3600
_TAKEN, _FULL = "ResourceInUse", "ResourceLimitExceeded"
_FINAL = frozenset({"ValidationException", "AccessDeniedException", "AccessDenied", "ResourceNotFound"})


class ResumeDecisions:
    """The decisions about jobs that go on, for one event.

    Args:
        table: Table of runs.
        settings: Of this function.
        context: Lambda's.
        clock: Returns seconds since the epoch.
        event_id: Of the event.
    """

    def __init__(
        self,
        table: RunTable,
        settings: StopTrainingSettings,
        context: LambdaContext,
        *,
        clock: Callable[[], float],
        event_id: str,
    ) -> None:
        self._table, self._settings, self._context = table, settings, context
        self._clock, self._event_id = clock, event_id

    def decide(self, evaluation: RuleEvaluation, known: Known) -> Done | Nothing | Wait:
        """Create the job that goes on, or record why none does. `Wait`: the stopped job has not ended yet.

        Errors: `ClientError`; then the next delivery continues.
        """
        if refusal := self._refusal(evaluation, known):
            return self._leave(evaluation, refusal)
        described = self._described(evaluation)
        status = str(described.get("TrainingJobStatus", ""))
        if status and status not in TERMINAL_JOB_STATUSES:
            return self._wait(evaluation, known, f"it is {status}")
        found = self._successor(evaluation, known, described)
        if isinstance(found, str):
            return self._leave(evaluation, found)
        try:
            return self._once(evaluation, partial(self._start, evaluation, found, described))
        except _FullError as error:
            return self._wait(evaluation, known, str(error))
        except _RefusedError as error:
            return self._leave(evaluation, str(error))

    def _refusal(self, evaluation: RuleEvaluation, known: Known) -> str:
        """Return why no job may go on, a clause that needs no look at the stopped one; "" if one may."""
        refusal = (
            prohibition(evaluation, known, self._settings, now=self._clock())
            or self._reason_of_another_account(evaluation)
            or reason_to_leave(evaluation, known, self._settings)
        )
        if not refusal and not self._table.claim_stop(evaluation.job, finding=evaluation.finding_id):
            return "the job was stopped for another finding"
        return refusal

    def _successor(self, evaluation: RuleEvaluation, known: Known, described: Mapping[str, Any]) -> Successor | str:
        if not described:
            return "the job was deleted"
        if described["TrainingJobStatus"] != "Stopped":
            return f"the job {described['TrainingJobStatus'].lower()} by itself before it was stopped"
        tags, fields = self._tags(evaluation), _arguments_of_a_job()
        return successor_of(evaluation, known, described, tags, self._settings, fields=fields)

    def _described(self, evaluation: RuleEvaluation) -> Mapping[str, Any]:
        """Return SageMaker's description of the stopped job; {} if it was deleted. Errors: `ClientError`."""
        try:
            found: Mapping[str, Any] = client("sagemaker").describe_training_job(TrainingJobName=evaluation.job.name)
        except ClientError as error:
            if not is_missing(error):
                raise
            return {}
        return found

    def _start(self, evaluation: RuleEvaluation, found: Successor, described: Mapping[str, Any]) -> Done:
        pace("resume", pause_milliseconds=self._settings.pause_milliseconds, context=self._context)
        try:
            client("sagemaker").create_training_job(**found.request)
        except ClientError as error:
            if code_of(error) == _FULL:
                raise _FullError(f"SageMaker has no room for {found.name}: {message_of(error)}") from error
            if code_of(error) in _FINAL:
                raise _RefusedError(f"SageMaker refused {found.name}: {message_of(error)}") from error
            if code_of(error) != _TAKEN:
                raise
            if not self._is_ours(found):  # else an earlier attempt created it, and could not record it
                raise _RefusedError(f"another job has the name {found.name}") from error
        reason = messages.story(evaluation, found, described, self._settings)
        self._publish(*messages.resumed(evaluation, found, described, self._settings))
        self._record(evaluation, StopOutcome.RESUMED, reason, successor=found.name)
        return Done(reason)

    def _is_ours(self, found: Successor) -> bool:
        """Return True if the job of this name goes on in the place of the same job. Errors: `ClientError`."""
        existing = client("sagemaker").describe_training_job(TrainingJobName=found.name)
        try:
            order = Resumption.from_json((existing.get("Environment") or {}).get(ORDER_VARIABLE, ""))
        except ConfigurationError:
            return False
        return (order.after, order.number) == (found.order.after, found.order.number)

    def _leave(self, evaluation: RuleEvaluation, why: str) -> Nothing:
        """Record that the job was stopped alone, and notify its owner."""
        reason = f"{evaluation.job.name} was stopped, and no job goes on in its place: {why}."

        def act() -> Done:
            self._publish(*messages.not_resumed(evaluation, why))
            self._record(evaluation, StopOutcome.NOT_RESUMED, reason)
            return Done(reason)

        self._once(evaluation, act, part="not resumed")
        return Nothing(reason, surprising=True)

    def _wait(self, evaluation: RuleEvaluation, known: Known, why: str) -> Nothing | Wait:
        stops = [one.at for one in known.decisions if one.outcome is StopOutcome.STOPPED]
        if self._clock() >= max(stops) + MOST_WAIT_SECONDS:
            return self._leave(evaluation, f"{why}, {MOST_WAIT_SECONDS // 3600} hours after the stop")
        return Wait(LOOK_SECONDS, f"{evaluation.job.name} goes on as another job later: {why}.")

    def _reason_of_another_account(self, evaluation: RuleEvaluation) -> str:
        function_arn = self._context.invoked_function_arn
        account = account_to_enter(evaluation.job.arn, self._settings, function_arn=function_arn)
        return f"jobs are created in this account only, not in {account}" if account else ""

    def _tags(self, evaluation: RuleEvaluation) -> dict[str, str]:
        pages = client("sagemaker").get_paginator("list_tags").paginate(ResourceArn=evaluation.job.arn)
        return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}

    def _record(self, evaluation: RuleEvaluation, outcome: StopOutcome, reason: str, *, successor: str = "") -> None:
        record = DecisionRecord(evaluation, outcome, self._clock(), reason, self._event_id, successor=successor)
        self._table.put_once(record.to_item(expires_at=self._table.expires_at))

    def _once(self, evaluation: RuleEvaluation, act: Callable[[], Done | Nothing], *, part: str = "") -> Done | Nothing:
        table = self._settings.idempotency_table
        return once(Action.RESUME_TRAINING, evaluation, act, table=table, context=self._context, part=part)

    def _publish(self, subject: str, body: str) -> None:
        client("sns").publish(TopicArn=self._settings.topic_arn, Subject=subject, Message=body)


class _FullError(Exception):
    """SageMaker has no instance for the job at the moment."""


class _RefusedError(Exception):
    """SageMaker will not create the job at any later time either."""


def _arguments_of_a_job() -> frozenset[str]:
    """Return the names of CreateTrainingJob's arguments, as this runtime's boto3 knows them."""
    model = client("sagemaker").meta.service_model.operation_model("CreateTrainingJob")
    return frozenset(model.input_shape.members)
