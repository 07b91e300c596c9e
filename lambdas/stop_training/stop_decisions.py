"""Carries out what was decided about a finding, and records it: each decision once, with its evidence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import ClientError

from lambdas.shared.clients import client, code_of, message_of
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.once import once
from lambdas.shared.pace import pace
from lambdas.shared.run_table import RunTable
from lambdas.shared.runs import sent_at
from lambdas.stop_training import messages
from lambdas.stop_training.job_account import account_to_enter, sagemaker_in
from lambdas.stop_training.known import read_known
from lambdas.stop_training.logic import (
    SECONDS_AN_HOUR,
    Announce,
    Answer,
    Decision,
    FindStopper,
    Known,
    StopRun,
    Wait,
    may_be_ours,
    needs_others,
    read_refusal,
    requested_stop,
    requests_of,
    savings,
    veto_minutes,
    weigh,
)
from lambdas.stop_training.resume_decisions import LOOK_SECONDS, ResumeDecisions
from lambdas.stop_training.settings import StopTrainingSettings
from lambdas.stop_training.successor import is_to_resume
from trackside.contracts.action import Action
from trackside.contracts.deployment.stop_record import DecisionRecord, Savings, StopOutcome
from trackside.contracts.event import RuleEvaluation

MOST_DELAY_SECONDS = 900  # API_SendMessage
# API_SecondaryStatusTransition: the states with which a job ends, and those of a stop by somebody.
STOPPED_STATUSES = frozenset({"Stopping", "Stopped"})
LAST_STATUSES = STOPPED_STATUSES | {"Completed", "Failed", "MaxRuntimeExceeded", "MaxWaitTimeExceeded"}


class StillShownRunningError(Exception):
    """SageMaker shows a job as running that ends: its reads lag behind. The message comes again."""


class StopDecisions:
    """The decisions about one event. `wait_seconds` is the time until it must be looked at again; None: never."""

    def __init__(
        self,
        event: Mapping[str, Any],
        settings: StopTrainingSettings,
        context: LambdaContext,
        clock: Callable[[], float],
    ) -> None:
        self._event, self._settings, self._context, self._clock = event, settings, context, clock
        self._table = RunTable(settings.run_table, retention_days=settings.retention_days, clock=clock)
        self.wait_seconds: int | None = None

    def decide(self, evaluation: RuleEvaluation) -> Done | Nothing:
        """Decide about one finding, and carry it out.

        Errors: `ClientError`; then no wrong action was done, and the next delivery continues where this one ended.
        """
        stop = self._requested_stop(evaluation)
        if isinstance(stop, Nothing):
            return stop
        if needs_others(evaluation, self._settings):
            # Written before it is read what others wrote: of two findings that come at once one sees the other.
            self._record(
                evaluation,
                StopOutcome.UNCONFIRMED,
                f"{evaluation.finding_id} of {evaluation.job.name} requests a stop.",
            )
        parameter, found_at = self._settings.dry_run_parameter, sent_at(self._event)
        known = read_known(evaluation.job, self._table, dry_run_parameter=parameter, found_at=found_at)
        if is_to_resume(evaluation, known, self._settings):
            return self._resume(evaluation, known)
        return self._carry_out(evaluation, weigh(evaluation, stop, known, self._settings, now=self._clock()), known)

    def _carry_out(self, evaluation: RuleEvaluation, decision: Decision, known: Known) -> Done | Nothing:
        match decision:
            case Answer():
                return self._answer(evaluation, decision)
            case Wait():
                return self._wait(decision.seconds, decision.reason)
            case Announce():
                return self._announce(evaluation, decision)
            case FindStopper():
                return self._answer_by_time(evaluation, decision.ended, known)
            case StopRun():
                return self._stop_within_budget(evaluation, decision, known)
        return decision

    def look_again(self) -> None:
        """Send the event to its own queue again, if any of it waits. A new message has all its attempts."""
        if self.wait_seconds is not None:
            client("sqs").send_message(
                QueueUrl=self._settings.queue_url,
                MessageBody=json.dumps(self._event),
                DelaySeconds=max(0, min(self.wait_seconds, MOST_DELAY_SECONDS)),
            )

    def _resume(self, evaluation: RuleEvaluation, known: Known) -> Done | Nothing:
        resumes = ResumeDecisions(
            self._table, self._settings, self._context, clock=self._clock, event_id=self._event_id
        )
        answer = resumes.decide(evaluation, known)
        return self._wait(answer.seconds, answer.reason) if isinstance(answer, Wait) else answer

    def _answer(self, evaluation: RuleEvaluation, answer: Answer) -> Nothing:
        self._record(evaluation, answer.outcome, answer.reason)
        return Nothing(answer.reason, surprising=answer.surprising)

    def _wait(self, seconds: int, reason: str, *, surprising: bool = False) -> Nothing:
        self.wait_seconds = seconds if self.wait_seconds is None else min(seconds, self.wait_seconds)
        return Nothing(reason, surprising=surprising)

    def _announce(self, evaluation: RuleEvaluation, announce: Announce) -> Done | Nothing:
        minutes = veto_minutes(evaluation, self._settings)
        reason = f"{evaluation.job.name} is stopped in {minutes} minutes unless somebody vetoes it."

        def act() -> Done:
            self._publish(*messages.announcement(evaluation, minutes=minutes))
            self._record(evaluation, StopOutcome.ANNOUNCED, reason)
            return Done(f"Announced: {reason}")

        answer = self._once(evaluation, act, part="announce")
        self._wait(announce.wait_seconds, reason)
        return answer

    def _stop_within_budget(self, evaluation: RuleEvaluation, stop: StopRun, known: Known) -> Done | Nothing:
        now, most = self._clock(), self._settings.stops_per_hour
        hour = datetime.fromtimestamp(now, tz=timezone.utc).strftime("%Y-%m-%dT%H")
        if not most or self._table.take_turn(evaluation.job, hour=hour, most=most):
            return self._once(evaluation, partial(self._stop, evaluation, stop, known))
        reason = (
            f"{evaluation.job.name} is NOT stopped: {most} jobs were in this hour. It is tried again in the next one."
        )

        def report() -> Done:
            if self._table.is_first_to_report(hour=hour):
                self._publish(*messages.over_budget(evaluation, most=most))
            self._record(evaluation, StopOutcome.OVER_BUDGET, reason)
            return Done(reason)

        self._once(evaluation, report, part=f"over budget {hour}")
        return self._wait(SECONDS_AN_HOUR - int(now) % SECONDS_AN_HOUR, reason, surprising=True)

    def _stop(self, evaluation: RuleEvaluation, stop: StopRun, known: Known) -> Done | Nothing:
        """Stop the job. The request is recorded first, so that after a crash its finding is known."""
        earlier = requests_of(evaluation, known.decisions)
        self._record(evaluation, StopOutcome.STOPPING, f"The stop of {stop.job_name} is requested from SageMaker.")
        pace("stop", pause_milliseconds=self._settings.pause_milliseconds, context=self._context)
        try:
            self._sagemaker_of(evaluation).stop_training_job(TrainingJobName=stop.job_name)
        except ClientError as error:
            refusal = read_refusal(stop.job_name, code=code_of(error), message=message_of(error))
            if refusal is None:
                raise
            if refusal.outcome is StopOutcome.ALREADY_ENDED and earlier:
                return self._answer_by_time(evaluation, refusal, known)
            return self._answer(evaluation, refusal)
        self._stopped_it(evaluation)
        return self._record_stop(evaluation, known)

    def _answer_by_time(self, evaluation: RuleEvaluation, ended: Answer, known: Known) -> Done | Nothing:
        """Record who stopped a job that ends after a request of ours without an answer.

        SageMaker does not record who stopped a job, but it records when.
        """
        requests, since = requests_of(evaluation, known.decisions), self._stopping_since(evaluation)
        if since is None or not may_be_ours(requests, stopping_since=since):
            reason = f"{ended.reason} Our own request for it was not answered."
            return self._answer(evaluation, Answer(ended.outcome, reason))
        if not self._stopped_it(evaluation):
            reason = f"{evaluation.job.name} was stopped for another finding."
            return self._answer(evaluation, Answer(ended.outcome, reason))
        return self._record_stop(evaluation, known)

    def _stopping_since(self, evaluation: RuleEvaluation) -> float | None:
        """Return the moment at which the job began to stop; None if it did not, or is unknown.

        Raises:
            StillShownRunningError: SageMaker does not show its end yet.
        """
        try:
            found = self._sagemaker_of(evaluation).describe_training_job(TrainingJobName=evaluation.job.name)
        except ClientError as error:
            if code_of(error) not in {"ValidationException", "AccessDeniedException"}:  # deleted; an older spoke
                raise
            return None
        if found["TrainingJobStatus"] == "InProgress":
            raise StillShownRunningError(evaluation.job.name)
        steps = found.get("SecondaryStatusTransitions") or ()
        last = next((step for step in steps if step["Status"] in LAST_STATUSES), None)
        return None if last is None or last["Status"] not in STOPPED_STATUSES else float(last["StartTime"].timestamp())

    def _record_stop(self, evaluation: RuleEvaluation, known: Known) -> Done:
        name, spared = evaluation.job.name, savings(known.job, self._settings, now=self._clock())
        if Action.RESUME_TRAINING in evaluation.requested_actions(self._settings.default_actions):
            spared = Savings()  # not known before another job goes on, or none
            self._wait(
                LOOK_SECONDS, f"Whether another job goes on in the place of {name} is decided once it has ended."
            )
        self._record(evaluation, StopOutcome.STOPPED, f"Stopped {name}.{_savings_sentence(spared)}", spared)
        return Done(f"Stopped {name}.")

    def _stopped_it(self, evaluation: RuleEvaluation) -> bool:
        """Return True if this finding stopped the job: of two calls without an answer, the first to claim it did."""
        return self._table.claim_stop(evaluation.job, finding=evaluation.finding_id)

    def _requested_stop(self, evaluation: RuleEvaluation) -> StopRun | Nothing:
        stop = requested_stop(evaluation, self._settings)
        if isinstance(stop, Nothing):
            return stop
        where = account_to_enter(evaluation.job.arn, self._settings, function_arn=self._context.invoked_function_arn)
        return where if isinstance(where, Nothing) else stop

    def _sagemaker_of(self, evaluation: RuleEvaluation) -> Any:
        function_arn = self._context.invoked_function_arn
        account = account_to_enter(evaluation.job.arn, self._settings, function_arn=function_arn)
        return sagemaker_in(str(account), self._settings, function_arn=function_arn)

    def _record(
        self, evaluation: RuleEvaluation, outcome: StopOutcome, reason: str, spared: Savings | None = None
    ) -> None:
        record = DecisionRecord(evaluation, outcome, self._clock(), reason, self._event_id, spared or Savings())
        self._table.put_once(record.to_item(expires_at=self._table.expires_at))

    @property
    def _event_id(self) -> str:
        return str(self._event.get("id", ""))

    def _once(self, evaluation: RuleEvaluation, act: Callable[[], Done | Nothing], *, part: str = "") -> Done | Nothing:
        table = self._settings.idempotency_table
        return once(Action.STOP_TRAINING, evaluation, act, table=table, context=self._context, part=part)

    def _publish(self, subject: str, body: str) -> None:
        client("sns").publish(TopicArn=self._settings.topic_arn, Subject=subject, Message=body)


def _savings_sentence(spared: Savings) -> str:
    if not spared.remaining_seconds:
        return ""
    hours = f"{spared.remaining_seconds / SECONDS_AN_HOUR:.1f} h of {spared.instances} until its time limit"
    money = f", {spared.most_money:.2f} at {spared.price_per_hour:g} an hour" if spared.price_per_hour else ""
    return f" It spares at most {hours}{money}; the job might have ended earlier by itself."
