"""Constructs of a deployment that the registry of actions and the folders of Lambdas make, for tests that walk them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stacks.paths import LAMBDAS
from trackside.contracts.action import DEFAULT_ACTIONS, Action

OWN_REACTION = [action for action in Action if not action.unit.carried_out_by]
REACTIONS = sorted(path.parent.name for path in LAMBDAS.glob("*/handler.py"))


def construct_name(reaction: str) -> str:
    """The name of a reaction's construct: the word of an action, or the name of its folder without underscores."""
    words: dict[str, str] = {action.unit.name: action.value for action in OWN_REACTION}
    return words.get(reaction, "".join(part.capitalize() for part in reaction.split("_")))


def place_of(body: Mapping[str, Any]) -> str:
    """The path of a resource within its stack."""
    path = str(body["Metadata"]["aws:cdk:path"])
    return path.split("/", 1)[1].removesuffix("/Resource")


FUNCTION_ROLES = {f"{construct_name(reaction)}/FunctionRole": reaction for reaction in REACTIONS}
"""Role -> the reaction that runs with it."""

ISSUES_FOUND = {f"{action.value}/IssueFound" for action in OWN_REACTION}
"""The rules of EventBridge that take our own verdicts to the actions."""

OFFICIAL_ISSUES_FOUND = {f"{action.value}/OfficialIssueFound" for action in OWN_REACTION if action in DEFAULT_ACTIONS}
"""Those that take SageMaker Debugger's own to the actions that nobody needs to ask for."""

OFFICIAL_ISSUES_FOUND_WITH_ACTION = {
    f"{action.value}/OfficialIssueFoundAndAsked" for action in OWN_REACTION if action not in DEFAULT_ACTIONS
}
"""Those that take them to the other actions, of jobs whose tag asks for it."""
