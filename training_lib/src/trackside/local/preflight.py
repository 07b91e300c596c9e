"""Before the training starts: are the rules known, are their parameters right, and will what they need be saved?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trackside.contracts.action import Action
from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS, CaptureRequest
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_catalogue import RuleCatalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest


@dataclass(frozen=True)
class RulePlan:
    """Which rules judge the run, what is saved for them, and what a user should know about that beforehand."""

    request: RuleRequest
    capture: CaptureRequest
    notes: tuple[str, ...]


def plan_rules(
    rules: Sequence[RuleConfiguration],
    *,
    catalogue: RuleCatalogue,
    actions: tuple[Action, ...] | None,
    save_interval: int | None = None,
) -> RulePlan:
    """The plan for these rules, or for every rule of the catalogue where none is named.

    `actions` replaces what each rule asks for; None leaves it. `save_interval` replaces how often anything is saved.
    Errors: `ConfigurationError` with every problem at once.
    """
    chosen = tuple(rules) or tuple(RuleConfiguration(rule_id) for rule_id in catalogue.usual)
    if not chosen:
        raise ConfigurationError([Problem("rules", "there is none.", "Reinstall Trackside.")], subject="The catalogue")
    if actions is not None:
        chosen = tuple(replace(rule, actions=actions) for rule in chosen)
    named = _with_names_of_their_own(chosen)
    catalogue.check(RuleRequest(named))
    request = RuleRequest(_with_their_files(named))
    capture = catalogue.capture_request(request)
    if save_interval is not None:
        capture = _at_interval(capture, save_interval)
    return RulePlan(request, capture, tuple(_not_captured(request, catalogue, capture)))


def _with_names_of_their_own(rules: Sequence[RuleConfiguration]) -> tuple[RuleConfiguration, ...]:
    """`exploding-tensor`, `exploding-tensor-2`: the same rule may be asked twice, with other parameters."""
    taken: set[str] = set()
    named = []
    for rule in rules:
        name, number = rule.name, 1
        while name in taken:
            number += 1
            name = f"{rule.name}-{number}"
        taken.add(name)
        named.append(replace(rule, name=name))
    return tuple(named)


def _with_their_files(rules: Sequence[RuleConfiguration]) -> tuple[RuleConfiguration, ...]:
    """Rules of the user's own are loaded once beforehand: a mistake in them shows before the training starts."""
    if not any(rule.custom for rule in rules):
        return tuple(rules)
    from trackside.rules.rule_file import settled  # brings NumPy, which is not needed otherwise

    found: list[RuleConfiguration] = []
    problems: list[Problem] = []
    for rule in rules:
        try:
            found.append(settled(rule) if rule.custom else rule)
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError(problems, subject="The rule request")
    return tuple(found)


def _at_interval(capture: CaptureRequest, save_interval: int) -> CaptureRequest:
    collections = tuple(
        replace(collection, schedule=replace(collection.schedule, save_interval=save_interval))
        for collection in capture.collections
    )
    return replace(capture, collections=collections)


def _not_captured(request: RuleRequest, catalogue: RuleCatalogue, capture: CaptureRequest) -> list[str]:
    savable = {
        c.name for c in capture.collections if c.name in BUILT_IN_COLLECTIONS or c.include_regex or c.tensor_names
    }
    notes = []
    for rule in request.rules:
        watches = [collection.name for collection in catalogue.needs(rule).collections]
        if not watches:  # the always-on statistics are enough to it
            if not capture.statistics.enabled:
                notes.append(f"{rule.name} needs the always-on statistics, which are switched off.")
        elif savable.isdisjoint(watches):  # a rule that watches several judges with those that are there
            notes.append(
                f"{rule.name} needs {' or '.join(watches)}, which will not be saved: it cannot judge anything."
            )
    return notes
