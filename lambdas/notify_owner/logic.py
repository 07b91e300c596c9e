"""Messages to the owner of a training job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.notify_owner.wrong_choice import is_wrong_choice, wrong_choice_body
from lambdas.shared.action_requests import reason_not_to
from lambdas.shared.decisions import Nothing
from lambdas.shared.plain import ascii_only, plain
from trackside.contracts.action import Action
from trackside.contracts.event import Evidence, RuleEvaluation, job_of_identity

MOST_NAMED = 10  # findings that a message names besides its own
MOST_SUBJECT_CHARACTERS = 100  # API_Publish: ASCII, no line breaks, fewer than 100 characters for e-mail


@dataclass(frozen=True)
class SendMessage:
    """One message. Subscribers filter by `attributes`: rule, job, severity, status, finding. `link`: to its run."""

    subject: str
    body: str
    attributes: Mapping[str, str]
    link: str = ""


def decide(evaluation: RuleEvaluation, settings: NotifyOwnerSettings) -> SendMessage | Nothing:
    """Return one message for one issue of one rule."""
    refusal = reason_not_to(Action.NOTIFY, evaluation, default_actions=settings.default_actions)
    if refusal and not is_wrong_choice(evaluation):
        return refusal
    return SendMessage(
        subject=_subject(evaluation),
        body=_body(evaluation, default_actions=settings.default_actions),
        attributes=_attributes(evaluation),
    )


def message_of_unjudged(evaluation: RuleEvaluation) -> SendMessage:
    """Return the message that a job is not watched, or saved nothing that its rules need. No action must request it."""
    lines = [
        f"The training job {plain(evaluation.job.name)} is not judged.",
        "",
        f"Why:      {plain(evaluation.details)}",
        f"Run:      {plain(evaluation.run_uri)}",
        "",
        *(plain(step) for step in evaluation.what_to_do),
        "",
        f"Training job: {plain(evaluation.job.arn)}",
        "",
    ]
    return SendMessage(
        _plain_subject(f"Trackside: NOT judged: {evaluation.job.name}"), "\n".join(lines), _attributes(evaluation)
    )


def and_others(body: str, others: Sequence[str]) -> str:
    """Return the text with the other findings of the rule in its quiet time."""
    if not others:
        return body
    came = f"It went and came back {len(others)} more {'times' if len(others) > 1 else 'time'} since the last message"
    return f"{body}{came}: {', '.join(map(plain, others[:MOST_NAMED]))}.\n"


def _attributes(evaluation: RuleEvaluation) -> dict[str, str]:
    return {
        "rule": evaluation.rule_id or evaluation.configuration_name,
        "job": evaluation.job.name,
        "severity": evaluation.severity.value,
        "status": evaluation.status.value,
        "finding": evaluation.finding_id,  # a message that came twice has the same
    }


def _subject(evaluation: RuleEvaluation) -> str:
    return _plain_subject(f"Trackside: {evaluation.configuration_name} in {evaluation.job.name}")


def _plain_subject(text: str) -> str:
    subject = ascii_only(text)
    return subject if len(subject) < MOST_SUBJECT_CHARACTERS else subject[: MOST_SUBJECT_CHARACTERS - 4] + "..."


def _body(evaluation: RuleEvaluation, *, default_actions: tuple[Action, ...]) -> str:
    if is_wrong_choice(evaluation):
        return wrong_choice_body(evaluation)
    is_to_stop = any(action.unit.stops for action in evaluation.requested_actions(default_actions))
    what_follows = "it requests to stop" if is_to_stop else "goes on"
    lines = [
        f"The rule {plain(evaluation.configuration_name)} found an issue in the training job",
        f"{plain(evaluation.job.name)}, which {what_follows}.",
        "",
        *_facts(evaluation),
    ]
    if evaluation.what_to_do:
        steps = (f"  {number}. {plain(step)}" for number, step in enumerate(evaluation.what_to_do, 1))
        lines += ["", "What to do", *steps]
    if evaluation.run_uri:
        lines += ["", "This shows more", f"  trackside findings {plain(evaluation.run_uri)}"]
    return "\n".join([*lines, "", f"Training job: {plain(evaluation.job.arn)}", *_continued(evaluation), ""])


def _continued(evaluation: RuleEvaluation) -> list[str]:
    """Return the line about the stopped job that this one continues, and the command that shows both."""
    if not evaluation.job.continues:
        return []
    name, before = plain(evaluation.job.name), plain(job_of_identity(evaluation.job.continues).name)
    return [f"It continues {before}, which was stopped: trackside aws verdicts {name} shows both."]


def _facts(evaluation: RuleEvaluation) -> list[str]:
    evidence = evaluation.evidence
    facts = [
        ("What", evaluation.details or "The event holds no more details."),
        ("Severity", evaluation.severity.value),
        ("Where", _where(evidence)),
        ("Since", f"step {evidence.since_step} (judged at step {evidence.step})" if evidence.tensor_name else ""),
        ("Observed", evidence.comparison),
    ]
    return [f"{name + ':':<10}{plain(value)}" for name, value in facts if value]


def _where(evidence: Evidence) -> str:
    others = evidence.affected - 1
    more = f" and {others} more" if others > 0 else ""
    return f"{evidence.tensor_name} of {evidence.worker}{more}" if evidence.tensor_name else ""
