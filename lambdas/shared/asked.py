"""Whether an event asks for an action."""

from __future__ import annotations

from collections.abc import Sequence

from lambdas.shared.decisions import Nothing
from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluation


def reason_not_to(action: Action, evaluation: RuleEvaluation, *, default_actions: Sequence[Action]) -> Nothing | None:
    """None if this rule evaluation asks for `action`, else why it does not.

    An event of the original names no actions: the deployment's default ones hold for it.
    """
    rule = evaluation.configuration_name
    if not evaluation.found_issues:
        return Nothing(f"{rule} of {evaluation.job.name} is {evaluation.status.value}.")
    asked = default_actions if evaluation.actions is None else evaluation.actions
    if action not in asked:
        whose = "this deployment" if evaluation.actions is None else "the rule"
        return Nothing(f"{whose} asks for no {action.value} when {rule} finds an issue.")
    return None
