"""Messages to people while a stop is on its way."""

from __future__ import annotations

from lambdas.shared.plain import ascii_only, plain
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


def _subject(text: str) -> str:
    return ascii_only(text)[:MOST_SUBJECT_CHARACTERS]
