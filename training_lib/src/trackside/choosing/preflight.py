"""Checks before the training starts: known rules, right parameters, and the tensors to save for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trackside.choosing.lacking_inputs import lacking_input
from trackside.contracts.action import Action
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.rule_catalogue import RuleCatalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest


@dataclass(frozen=True)
class RulePlan:
    """The rules that judge a run, the tensors saved for them, and notes for the user.

    request     the rules
    capture     the tensors to save
    notes       one sentence for each rule that lacks something, beginning with the rule's name
    was_chosen  False if the user named no rule, so that all usual ones judge
    """

    request: RuleRequest
    capture: CaptureRequest
    notes: tuple[str, ...]
    was_chosen: bool = False


def plan_rules(
    rules: Sequence[RuleConfiguration],
    *,
    catalogue: RuleCatalogue,
    actions: tuple[Action, ...] | None,
    save_interval: int | None = None,
    saves: Sequence[CollectionRequest] = (),
    capture: CaptureRequest | None = None,
    was_chosen: bool | None = None,
) -> RulePlan:
    """Return the plan for these rules; for every usual rule of the catalogue if none is named.

    actions        replace the actions of each rule; None keeps them
    save_interval  replaces the interval of every collection
    saves          collections whose values are saved besides; no rule gets less for it
    capture        saved whatever the rules need; a rule of an Amazon preset takes its schedules
    was_chosen     True: the user chose each rule by itself; None: if any rule is named

    Errors: `ConfigurationError` with every problem at once.
    """
    chosen = tuple(rules) or tuple(RuleConfiguration(rule_id) for rule_id in catalogue.usual)
    if not chosen:
        raise ConfigurationError([Problem("rules", "there is none.", "Reinstall Trackside.")], subject="The catalogue")
    if actions is not None:
        chosen = tuple(replace(rule, actions=actions) for rule in chosen)
    named = with_names_of_their_own(chosen)
    catalogue.check(RuleRequest(named))
    prepared = _with_their_files(named)
    request = RuleRequest(tuple([one.configuration for one in prepared]))
    saved = (
        _with_losses(catalogue.capture_request(request))
        if capture is None
        else catalogue.with_needs(capture, request.rules, [])
    )
    if save_interval is not None:
        saved = _at_interval(saved, save_interval)
    saved = replace(saved, collections=_with_values(saved.collections, saves))
    notes = [n for one in prepared if (n := lacking_input(one.configuration, one.watches, catalogue, saved))]
    return RulePlan(request, saved, tuple(notes), was_chosen=bool(rules) if was_chosen is None else was_chosen)


def with_names_of_their_own(rules: Sequence[RuleConfiguration]) -> tuple[RuleConfiguration, ...]:
    """Return the rules with unique names, `exploding-tensor`, `exploding-tensor-2`.

    The same rule may be given twice, with other parameters.
    """
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


@dataclass(frozen=True)
class _Prepared:
    """A configuration as stored in the run. `watches` are the collections of a user's own rule."""

    configuration: RuleConfiguration
    watches: tuple[str, ...] = ()


def _with_their_files(rules: Sequence[RuleConfiguration]) -> tuple[_Prepared, ...]:
    """Load the user's own rules once, so that a mistake in them shows before the training starts."""
    if not any(rule.custom for rule in rules):
        return tuple([_Prepared(rule) for rule in rules])
    from trackside.rules.rule_file import load_rule, settled_as  # brings NumPy, which is not needed otherwise

    found: list[_Prepared] = []
    problems: list[Problem] = []
    for rule in rules:
        try:
            if rule.custom:
                loaded = load_rule(rule)
                needed = loaded.describe().capture_request.collections
                watches = () if loaded.judges_every_step else tuple([collection.name for collection in needed])
                found.append(_Prepared(settled_as(rule, loaded), watches))
            else:
                found.append(_Prepared(rule))
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError(problems, subject="The rule request")
    return tuple(found)


def _with_losses(capture: CaptureRequest) -> CaptureRequest:
    """Return the request with losses, every 500 steps as by smdebug, also if no rule needs them."""
    if any(collection.name == "losses" for collection in capture.collections):
        return capture
    return replace(capture, collections=(CollectionRequest("losses"), *capture.collections))


def _with_values(
    needed: Sequence[CollectionRequest], saves: Sequence[CollectionRequest]
) -> tuple[CollectionRequest, ...]:
    """Merge the collections that rules need with those of `--save`: values are saved at the shorter interval."""
    found = {collection.name: collection for collection in needed}
    for one in saves:
        known = found.get(one.name, one)
        interval = min(known.schedule.save_interval, one.schedule.save_interval)
        schedule = replace(known.schedule, save_interval=interval)
        found[one.name] = replace(known, schedule=schedule, save_raw_tensor=True)
    return tuple(found.values())


def _at_interval(capture: CaptureRequest, save_interval: int) -> CaptureRequest:
    collections = tuple(
        replace(collection, schedule=replace(collection.schedule, save_interval=save_interval))
        for collection in capture.collections
    )
    return replace(capture, collections=collections)
