"""Messages to people while a stop is on its way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lambdas.shared.plain import ascii_only, plain
from lambdas.stop_training.logic import SECONDS_AN_HOUR, price_of
from lambdas.stop_training.settings import StopTrainingSettings
from lambdas.stop_training.successor import Successor
from trackside.contracts.event import RuleEvaluation

MOST_SUBJECT_CHARACTERS = 99  # API_Publish: ASCII, fewer than 100 characters for e-mail


def announcement(evaluation: RuleEvaluation, *, minutes: int) -> tuple[str, str]:
    """Return (subject, body): the job is stopped soon, and how to prevent that."""
    name = plain(evaluation.job.name)
    body = [
        f"The training job {name} will be stopped in {minutes} minutes, for {plain(evaluation.configuration_name)}:",
        f"  {plain(evaluation.details or 'the event holds no more details.')}",
        "",
        "To let it go on:",
        f"  trackside aws veto {name} --by YOUR-NAME --reason WHY",
        "",
        f"Training job: {plain(evaluation.job.arn)}",
        "",
    ]
    return _subject(f"Trackside: {name} will be stopped in {minutes} minutes"), "\n".join(body)


def over_budget(evaluation: RuleEvaluation, *, most: int) -> tuple[str, str]:
    """Return (subject, body): the job, the first of this hour, should be stopped and is not, because too many were."""
    name = plain(evaluation.job.name)
    body = [
        f"The training job {name} should be stopped for {plain(evaluation.configuration_name)}, but goes on:",
        f"this deployment stops at most {most} jobs an hour (stops_per_hour), and did so in this one.",
        "It is tried again in the next hour. Others may wait, too; only the first of an hour is reported, the rest is",
        "in the table (trackside aws status, trackside aws verdicts JOB). If so many are right to stop,",
        "look for what they have in common; to have them all stopped, raise stops_per_hour.",
        "",
        f"Training job: {plain(evaluation.job.arn)}",
        "",
    ]
    return _subject(f"Trackside: NOT stopped, too many stops this hour: {name}"), "\n".join(body)


def resumed(
    evaluation: RuleEvaluation, found: Successor, described: Mapping[str, Any], settings: StopTrainingSettings
) -> tuple[str, str]:
    """Return (subject, body): another job goes on, from where, and what it may cost."""
    name, order = plain(evaluation.job.name), found.order
    body = [
        f"The training job {name} was stopped for {plain(evaluation.configuration_name)}:",
        f"  {plain(evaluation.details or 'the event holds no more details.')}",
        "",
        f"It goes on as {found.name}, number {order.number} of at most {settings.resumes_per_job}, from the checkpoint",
        f"  {plain(found.checkpoint)}",
        f"of step {order.checkpoint_step}; {order.undone_steps} steps, to step {order.at_step}, are done again.",
        "",
        *_costs(found, described, settings),
        "",
        "To end it:",
        f"  aws sagemaker stop-training-job --training-job-name {found.name}",
        "",
        f"Training job: {plain(evaluation.job.arn)}",
        "",
    ]
    return _subject(f"Trackside: {name} goes on as {found.name}"), "\n".join(body)


def story(
    evaluation: RuleEvaluation, found: Successor, described: Mapping[str, Any], settings: StopTrainingSettings
) -> str:
    """Return what became of a run in one line: its stop, the step gone back to, the job that goes on, and its price."""
    order = found.order
    line = (
        f"{plain(evaluation.job.name)} goes on as {found.name} from step {order.checkpoint_step} "
        f"({plain(found.checkpoint)}), after a stop at step {order.at_step}: {order.undone_steps} steps are done again."
    )
    return " ".join([line, *_costs(found, described, settings)])


def not_resumed(evaluation: RuleEvaluation, why: str) -> tuple[str, str]:
    """Return (subject, body): the job was stopped alone, and why."""
    name = plain(evaluation.job.name)
    body = [
        f"The training job {name} was stopped for {plain(evaluation.configuration_name)}:",
        f"  {plain(evaluation.details or 'the event holds no more details.')}",
        "",
        "No job goes on in its place:",
        f"  {plain(why)}.",
        "",
        f"Training job: {plain(evaluation.job.arn)}",
        "",
    ]
    return _subject(f"Trackside: {name} was stopped and does not go on"), "\n".join(body)


def _costs(found: Successor, described: Mapping[str, Any], settings: StopTrainingSettings) -> Iterator[str]:
    """Yield what the jobs before were billed, and the most that the new one may take."""
    resources = described.get("ResourceConfig") or {}
    count, kind = int(resources.get("InstanceCount") or 0), str(resources.get("InstanceType") or "")
    price = price_of(kind, settings.instance_prices)

    def priced(hours: float) -> str:
        money = f", {hours * count * price:.2f} at {price:g} an hour" if price and count else ""
        return f"{hours:.1f} h of {count} x {kind}{money}" if count else f"{hours:.1f} h"

    billed = found.order.billed_seconds / SECONDS_AN_HOUR
    most = int((described.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds") or 0) / SECONDS_AN_HOUR
    if billed:
        yield f"Billed so far: {priced(billed)}."
    if most:
        yield f"The new job may take {priced(most)} more, at most."


def _subject(text: str) -> str:
    return ascii_only(text)[:MOST_SUBJECT_CHARACTERS]
