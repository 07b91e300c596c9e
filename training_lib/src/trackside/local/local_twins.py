"""The actions on one machine: the search for a local twin, and the interface for acting on a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol

from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Verdict

TWINS = "trackside.local.actions"


class ActingRun(Protocol):
    """A run on this machine, with the means of a local twin to act on it."""

    @property
    def folder(self) -> Path:
        """The folder of the run."""

    def show(self, verdict: Verdict) -> None:
        """Show the issue to the user."""

    def stop_for(self, verdict: Verdict) -> None:
        """Stop the training because of this issue. No effect if it is stopping or has ended."""


class LocalTwin(Protocol):
    """One action on one machine."""

    def __call__(self, verdict: Verdict, run: ActingRun) -> None:
        """Carry out the action for an issue of a rule that asks for it."""


def check_terms(rules: Iterable[RuleConfiguration]) -> None:
    """Check that this machine can keep the terms of every rule's actions.

    Raises:
        ConfigurationError: a term, such as a time for a veto, exists in AWS only.
    """
    problems = [
        Problem(
            f"rules.{rule.name}.actions.{action.value}.{term}",
            f"is {value}, but only a deployment in AWS can keep it.",
            f"Set it to {action.unit.terms[term].least}, or leave it out of the rules of this run.",
        )
        for rule in rules
        for action, term, value in rule.terms.given
        if action.unit.terms[term].needs_aws and value != action.unit.terms[term].least
    ]
    if problems:
        raise ConfigurationError(problems, subject="The rule request")


def local_twins(actions: Iterable[Action]) -> Mapping[Action, LocalTwin]:
    """Return the twin of each action. A stop comes last: the user knows the reason by then.

    Raises:
        ConfigurationError: `trackside run` cannot carry out one of them.
    """
    requested = frozenset(actions)
    in_order = sorted((action for action in Action if action in requested), key=lambda one: one.unit.stops)
    found: dict[Action, LocalTwin] = {}
    problems: list[Problem] = []
    for action in in_order:
        name = f"{TWINS}.{action.unit.name}"
        try:
            found[action] = import_module(name).carry_out
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            fix = "Remove it from the rules of this run, or deploy Trackside in AWS."
            problems.append(Problem(f"actions.{action.value}", "cannot be carried out on one machine.", fix))
    if problems:
        raise ConfigurationError(problems, subject="The rule request")
    return found
