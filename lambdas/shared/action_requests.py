"""The check if an event asks for an action."""

from __future__ import annotations

from collections.abc import Sequence

from lambdas.shared.decisions import Nothing
from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluation


def reason_not_to(action: Action, evaluation: RuleEvaluation, *, default_actions: Sequence[Action]) -> Nothing | None:
    """Return None if this rule evaluation asks for `action`, else the reason.

    An event of SageMaker Debugger names no actions: those of the job's tag hold for it, or the deployment's defaults.
    """
    rule = evaluation.configuration_name
    if not evaluation.found_issues:
        return Nothing(f"{rule} of {evaluation.job.name} is {evaluation.status.value}.")
    if action not in evaluation.requested_actions(tuple(default_actions)):
        source = _who_decides(evaluation)
        return Nothing(f"{source} requests no {action.value} when {rule} finds an issue.")
    return None


def _who_decides(evaluation: RuleEvaluation) -> str:
    if evaluation.actions is not None:
        return "the rule"
    return "this deployment" if evaluation.tagged_actions is None else "the job's tag"
