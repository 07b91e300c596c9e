"""The decision to stop a training job now, later or not at all, and the meaning of AWS's refusal to stop it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lambdas.shared.action_requests import reason_not_to
from lambdas.shared.decisions import Nothing
from lambdas.stop_training.settings import StopTrainingSettings
from trackside.contracts.action import Action
from trackside.contracts.actions.stop_training import AFTER_FINDINGS, VETO_MINUTES
from trackside.contracts.deployment.run_table import JobRecord, RuleRecord, is_later
from trackside.contracts.deployment.stop_record import DecisionRecord, Savings, StopOutcome, VetoRecord
from trackside.contracts.event import TERMINAL_JOB_STATUSES, RuleEvaluation, RuleEvaluationStatus

_JOB_ARN = re.compile(
    r"arn:[a-z-]+:sagemaker:[a-z0-9-]+:\d{12}:training-job/(?P<name>[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62})"
)
SECONDS_AN_HOUR = 3600
CLOCKS_SECONDS = 5.0  # between the clocks of Lambda and SageMaker, both of which AWS sets
REQUEST_SECONDS = 30.0 + CLOCKS_SECONDS  # a function's timeout


@dataclass(frozen=True)
class Known:
    """The state of table and switch at the moment of the decision.

    - `rules`: by configuration name
    - `found_at`: the moment at which EventBridge took the finding, in seconds since the epoch; 0: not known
    """

    decisions: tuple[DecisionRecord, ...] = ()
    rules: Mapping[str, RuleRecord] = field(default_factory=dict)
    job: JobRecord | None = None
    veto: VetoRecord | None = None
    dry_run: bool = False
    found_at: float = 0.0


@dataclass(frozen=True)
class StopRun:
    """The decision to stop the training job of exactly this name, if the hour's budget allows it."""

    job_name: str


@dataclass(frozen=True)
class Answer:
    """The decision not to stop the job: `outcome` and reason.

    With `surprising`, its owner may have wanted otherwise.
    """

    outcome: StopOutcome
    reason: str
    surprising: bool = False


@dataclass(frozen=True)
class FindStopper:
    """The decision to find out who stopped the job: it ends, and a stop of ours for this finding had no answer.

    `ended`: the answer if it was somebody else
    """

    ended: Answer


@dataclass(frozen=True)
class Announce:
    """The decision to announce that the job will be stopped in `wait_seconds`, then wait."""

    wait_seconds: int


@dataclass(frozen=True)
class Wait:
    """The decision to decide again in `seconds`."""

    seconds: int
    reason: str


Decision = StopRun | Answer | FindStopper | Announce | Wait | Nothing


def requested_stop(evaluation: RuleEvaluation, settings: StopTrainingSettings) -> StopRun | Nothing:
    """Return the stop of the job that the event's ARN names, if one is requested; never of one with a similar name."""
    stops = [action for action in Action if action.unit.stops]
    refusals = [reason_not_to(action, evaluation, default_actions=settings.default_actions) for action in stops]
    if all(refusals):
        return refusals[0] or Nothing("no action stops a job.")
    match = _JOB_ARN.fullmatch(evaluation.job.arn)
    if match is None:
        return Nothing(f"{evaluation.job.arn!r} is not the ARN of a training job.", surprising=True)
    return StopRun(match["name"])


def weigh(
    evaluation: RuleEvaluation, stop: StopRun, known: Known, settings: StopTrainingSettings, *, now: float
) -> Decision:
    """Return the decision about the finding: that of the first check that holds it back, in this order."""
    for check in (_concluded, _ended, _recovered, _unconfirmed, _vetoed, _cooling_down, _dry, _unannounced):
        decision = check(evaluation, known, settings, now)
        if decision is not None:
            return decision
    return stop


def prohibition(evaluation: RuleEvaluation, known: Known, settings: StopTrainingSettings, *, now: float) -> str:
    """Return why a person forbids what follows a stop, a clause; "" if nobody does."""
    if known.dry_run:
        return "the switch forbids stops by now"
    vetoed = _vetoed(evaluation, known, settings, now)
    return vetoed.reason if vetoed else ""


def veto_minutes(evaluation: RuleEvaluation, settings: StopTrainingSettings) -> int:
    """Return the time between announcement and stop, in minutes: the rule's, else the deployment's."""
    return evaluation.terms.value(Action.STOP_TRAINING, VETO_MINUTES, settings.veto_minutes)


def needs_others(evaluation: RuleEvaluation, settings: StopTrainingSettings) -> bool:
    """Return True if one finding alone never stops a job."""
    if evaluation.terms.value(Action.STOP_TRAINING, AFTER_FINDINGS, 1) > 1:
        return True
    return settings.after_findings > 1 or settings.after_rules > 1


def savings(job: JobRecord | None, settings: StopTrainingSettings, *, now: float) -> Savings:
    """Return the most that a stop at `now` can save. Nothing is guessed: unknown values are 0."""
    if job is None or not job.started_at or not job.max_runtime_seconds or not job.instance_count:
        return Savings()
    left = max(0, int(job.started_at + job.max_runtime_seconds - now))
    price = price_of(job.instance_type, settings.instance_prices)
    return Savings(
        remaining_seconds=left,
        instances=f"{job.instance_count} x {job.instance_type}",
        price_per_hour=price,
        most_money=round(left / SECONDS_AN_HOUR * job.instance_count * price, 2),
    )


def price_of(instance_type: str, prices: Iterable[str]) -> float:
    """Return the price of `ml.m5.large` in `ml.m5.large=0.12`, `ml.p4d.24xlarge=37.69`; 0 if it is not given."""
    for entry in prices:
        name, _, price = entry.partition("=")
        if name == instance_type and price:
            return float(price)
    return 0.0


def read_refusal(job_name: str, *, code: str, message: str) -> Answer | None:
    """Return the meaning of StopTrainingJob's error; None if trying again may help.

    AWS's messages are "The request was rejected because the training job is in status Stopped." (seen in
    awslabs/benchmark-ai #928) and "Requested resource not found.", both as ValidationException.
    """
    if code == "ValidationException" and "in status" in message:
        return Answer(StopOutcome.ALREADY_ENDED, f"{job_name} is stopping or has ended: {message}")
    if code == "ResourceNotFound" or (code == "ValidationException" and "not found" in message.lower()):
        return Answer(StopOutcome.REFUSED, f"there is no training job {job_name}: {message}", surprising=True)
    return None


# The rungs: each answers if it holds the finding, and None if it lets it pass ----------------------------------------


def _concluded(evaluation: RuleEvaluation, known: Known, _: StopTrainingSettings, now: float) -> Nothing | None:
    for decision in known.decisions:
        if decision.evaluation.finding_id == evaluation.finding_id and decision.outcome.is_final:
            outcome = decision.outcome.value
            return Nothing(
                f"{evaluation.finding_id} of {evaluation.job.name} was decided by an earlier delivery: {outcome}."
            )
    return None


def _ended(evaluation: RuleEvaluation, known: Known, _: StopTrainingSettings, now: float) -> Decision | None:
    if known.job is not None and not known.job.job.is_same_as(evaluation.job):
        why = f"{evaluation.job.name} was deleted; the job that has its name now is another one."
        return Answer(StopOutcome.ALREADY_ENDED, why)
    if known.job is None or known.job.status not in (*TERMINAL_JOB_STATUSES, "Stopping"):
        return None
    ended = Answer(StopOutcome.ALREADY_ENDED, f"{evaluation.job.name} is {known.job.status}.")
    return FindStopper(ended) if requests_of(evaluation, known.decisions) else ended


def _recovered(evaluation: RuleEvaluation, known: Known, _: StopTrainingSettings, now: float) -> Answer | None:
    if _stands(evaluation, known):
        return None
    return Answer(
        StopOutcome.RECOVERED, f"{evaluation.configuration_name} of {evaluation.job.name} has recovered since."
    )


def _unconfirmed(evaluation: RuleEvaluation, known: Known, settings: StopTrainingSettings, now: float) -> Answer | None:
    others = [decision.evaluation for decision in known.decisions]
    own = len(
        {one.finding_id for one in [evaluation, *others] if one.configuration_name == evaluation.configuration_name}
    )
    least = evaluation.terms.value(Action.STOP_TRAINING, AFTER_FINDINGS, 1)
    if own < least:
        why = f"{evaluation.configuration_name} requests a stop after {least} findings of its own; so far {own}."
        return Answer(StopOutcome.UNCONFIRMED, why)
    findings = len({one.finding_id for one in [evaluation, *others]})
    rules = len({one.configuration_name for one in [evaluation, *others] if _stands(one, known)})
    if findings >= settings.after_findings and rules >= settings.after_rules:
        return None
    wanted = f"{settings.after_findings} findings of {settings.after_rules} rules"
    return Answer(
        StopOutcome.UNCONFIRMED,
        f"{evaluation.job.name} is stopped after {wanted}; so far {findings} of {rules} request it.",
    )


def _vetoed(evaluation: RuleEvaluation, known: Known, settings: StopTrainingSettings, now: float) -> Answer | None:
    veto = known.veto
    found_at = known.found_at or evaluation.modified_at  # the evaluator's clock may differ from the veto's by hours
    if veto is None or (found_at > veto.at and now >= veto.at + 60 * settings.cool_down_minutes):
        return None
    why = f": {veto.reason}" if veto.reason else ""
    return Answer(StopOutcome.VETOED, f"{evaluation.job.name} goes on by the veto of {veto.by or 'somebody'}{why}")


def _cooling_down(
    evaluation: RuleEvaluation, known: Known, settings: StopTrainingSettings, now: float
) -> Answer | None:
    stops = [one.at for one in known.decisions if one.outcome is StopOutcome.STOPPED]
    if not stops or now >= max(stops) + 60 * settings.cool_down_minutes:
        return None
    return Answer(
        StopOutcome.COOLING_DOWN,
        f"{evaluation.job.name} was stopped less than {settings.cool_down_minutes} minutes ago.",
    )


def _dry(evaluation: RuleEvaluation, known: Known, _: StopTrainingSettings, now: float) -> Answer | None:
    if not known.dry_run:
        return None
    why = f"dry run: {evaluation.job.name} would be stopped for {evaluation.configuration_name}."
    return Answer(StopOutcome.WOULD_STOP, why, surprising=True)


def _unannounced(
    evaluation: RuleEvaluation, known: Known, settings: StopTrainingSettings, now: float
) -> Decision | None:
    """Return the announcement, or the wait for it.

    One announcement holds for all findings of a job that come while it waits.
    """
    window = 60 * veto_minutes(evaluation, settings)
    if not window:
        return None
    done = {one.evaluation.finding_id for one in known.decisions if one.outcome.is_final}
    announced = [
        one.at
        for one in known.decisions
        if one.outcome is StopOutcome.ANNOUNCED and one.evaluation.finding_id not in done
    ]
    if not announced:
        return Announce(window)
    left = math.ceil(min(announced) + window - now)
    return Wait(left, f"{evaluation.job.name} is stopped in {left} s unless somebody vetoes it.") if left > 0 else None


def requests_of(evaluation: RuleEvaluation, decisions: Iterable[DecisionRecord]) -> tuple[DecisionRecord, ...]:
    """Return the records that SageMaker was to be asked to stop the job for this finding: one for each attempt."""
    finding = evaluation.finding_id
    return tuple(
        one for one in decisions if one.outcome is StopOutcome.STOPPING and one.evaluation.finding_id == finding
    )


def may_be_ours(requests: Iterable[DecisionRecord], *, stopping_since: float) -> bool:
    """Return True if a job began to stop while a request of ours may have been on its way.

    The record of a request is written before it is made, by a function that lives for seconds: one that died before its
    request stopped nothing, and a job that began to stop later was stopped by somebody else.
    """
    return any(-CLOCKS_SECONDS <= stopping_since - one.at <= REQUEST_SECONDS for one in requests)


def _stands(evaluation: RuleEvaluation, known: Known) -> bool:
    """Return False once the rule has reported that the issue is gone. Its processing job may well end before that."""
    record = known.rules.get(evaluation.configuration_name)
    if record is None or record.evaluation.status is not RuleEvaluationStatus.NO_ISSUES_FOUND:
        return True
    return is_later(evaluation, record.evaluation)
