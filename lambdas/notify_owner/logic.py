"""What the owner of a training job is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.shared.asked import reason_not_to
from lambdas.shared.decisions import Nothing
from lambdas.shared.plain import plain
from trackside.contracts.action import Action
from trackside.contracts.event import Evidence, RuleEvaluation

MOST_SUBJECT_CHARACTERS = 100  # API_Publish: ASCII, no line breaks, fewer than 100 characters for e-mail


@dataclass(frozen=True)
class SendMessage:
    """One message. `attributes` are what subscribers filter by: rule, job, severity, status."""

    subject: str
    body: str
    attributes: Mapping[str, str]


def decide(evaluation: RuleEvaluation, settings: NotifyOwnerSettings) -> SendMessage | Nothing:
    """One message for one issue of one rule."""
    refusal = reason_not_to(Action.NOTIFY, evaluation, default_actions=settings.default_actions)
    if refusal:
        return refusal
    return SendMessage(
        subject=_subject(evaluation),
        body=_body(evaluation, default_actions=settings.default_actions),
        attributes={
            "rule": evaluation.rule_id or evaluation.configuration_name,
            "job": evaluation.job.name,
            "severity": evaluation.severity.value,
            "status": evaluation.status.value,
        },
    )


def _subject(evaluation: RuleEvaluation) -> str:
    text = f"Trackside: {evaluation.configuration_name} in {evaluation.job.name}"
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    return plain if len(plain) < MOST_SUBJECT_CHARACTERS else plain[: MOST_SUBJECT_CHARACTERS - 4] + "..."


def _body(evaluation: RuleEvaluation, *, default_actions: tuple[Action, ...]) -> str:
    actions = default_actions if evaluation.actions is None else evaluation.actions
    what_follows = "it asks to stop" if Action.STOP_TRAINING in actions else "goes on"
    lines = [
        f"The rule {_one_line(evaluation.configuration_name)} found an issue in the training job",
        f"{plain(evaluation.job.name)}, which {what_follows}.",
        "",
        *_facts(evaluation),
    ]
    if evaluation.what_to_do:
        steps = (f"  {number}. {_one_line(step)}" for number, step in enumerate(evaluation.what_to_do, 1))
        lines += ["", "What to do", *steps]
    if evaluation.run_uri:
        lines += ["", "This shows more", f"  trackside findings {_one_line(evaluation.run_uri)}"]
    return "\n".join([*lines, "", f"Training job: {plain(evaluation.job.arn)}", ""])


def _facts(evaluation: RuleEvaluation) -> list[str]:
    evidence = evaluation.evidence
    facts = [
        ("What", evaluation.details or "The event says no more."),
        ("Severity", evaluation.severity.value),
        ("Where", _where(evidence)),
        ("Since", f"step {evidence.since_step} (judged at step {evidence.step})" if evidence.tensor_name else ""),
        ("Observed", evidence.comparison),
    ]
    return [f"{name + ':':<10}{_one_line(value)}" for name, value in facts if value]


def _one_line(text: str) -> str:
    """Names of tensors come from the training script: none of them may look like a line of ours, or hide one."""
    return plain(text)


def _where(evidence: Evidence) -> str:
    others = evidence.affected - 1
    more = f" and {others} more" if others > 0 else ""
    return f"{evidence.tensor_name} of {evidence.worker}{more}" if evidence.tensor_name else ""
