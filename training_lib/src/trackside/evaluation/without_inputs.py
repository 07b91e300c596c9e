"""The last word about a rule that had nothing to look at: it does not apply, or what it was told of is not there."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping

from trackside.contracts.errors import did_you_mean
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.verdict import Verdict
from trackside.evaluation import verdicts
from trackside.evaluation.verdicts import Moment
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.role_collections import without_members
from trackside.rules.rule import Rule
from trackside.rules.selection import patterns, words
from trackside.trial.trial import Trial

MOST_NAMED = 3
LOSSES = "losses"
COLLECTIONS, REGEX = "collection_names", "tensor_regex"  # the parameters, wherever a rule has them

_logger = logging.getLogger(__name__)


def without_inputs(configured: ConfiguredRule, moment: Moment, trial: Trial, *, answered: bool) -> Verdict | None:
    """The verdict; None where there was something to look at. `answered`: the rule judged, and lacked nothing.

    Errors: `StorageError`.
    """
    if reason := nothing_to_judge(configured.rule, trial.model_facts, answered=answered):
        return verdicts.not_applicable(configured, moment, reason=reason)
    if not answered and sees_no_loss(configured.rule, trial.model_facts) and not trial.tensor_names(collection=LOSSES):
        return verdicts.no_loss(configured, moment)
    parameters = configured.configuration.parameters
    told = {name: text for name in (COLLECTIONS, REGEX) if (text := parameters.get(name, "").strip())}
    if not told or not trial.names or any(_selected(told, trial)):
        return None
    named = " or ".join(f"{name} {text!r}" for name, text in told.items())
    return verdicts.selects_nothing(configured, moment, told=named, fix=_fix(told, trial))


def nothing_to_judge(rule: Rule, facts: ModelFacts | None, *, answered: bool = False) -> str:
    """Why such a program has nothing that the rule judges, as a clause; empty: it may have, or nobody knows."""
    if facts is None:
        return ""
    try:
        reason = rule.nothing_to_judge(facts)
    except Exception as error:  # a rule may be anybody's code, and must not end the others
        _logger.error("The rule %s cannot say whether it applies", rule.rule_id, exc_info=error)
        reason = ""
    return reason or ("" if answered else without_members(rule.watches, facts))


def sees_no_loss(rule: Rule, facts: ModelFacts | None) -> bool:
    """True for a rule of losses alone, and a training whose steps show none so far."""
    return set(rule.watches) == {LOSSES} and facts is not None and bool(facts.parameters) and not facts.losses


def _selected(told: Mapping[str, str], trial: Trial) -> Iterator[str]:
    for collection in words(told.get(COLLECTIONS, "")):
        yield from trial.tensor_names(collection=collection)
    regexes = _regexes(told.get(REGEX, ""))
    yield from (name for name in trial.names if any(regex.search(name) for regex in regexes))


def _regexes(text: str) -> tuple[re.Pattern[str], ...]:
    try:
        return patterns(text)
    except re.error:  # a part of the list; what checked the parameter took the whole of it
        return ()


def _fix(told: Mapping[str, str], trial: Trial) -> str:
    """What would have selected something."""
    if COLLECTIONS in told:
        known = sorted(name for name, members in trial.collections.items() if members)
        return did_you_mean(next(iter(words(told[COLLECTIONS])), ""), known)
    shown, rest = ", ".join(trial.names[:MOST_NAMED]), len(trial.names) - MOST_NAMED
    return f"The run has {shown}{f' and {rest} more' if rest > 0 else ''}."
