"""The final verdict on a rule without input: it does not apply, or its settings select no tensor."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping

from trackside.contracts.errors import did_you_mean
from trackside.contracts.model_facts import BOOSTED, ESTIMATORS, ModelFacts
from trackside.contracts.name_pattern import NamePattern
from trackside.contracts.verdict import Verdict
from trackside.evaluation.results import verdicts
from trackside.evaluation.results.verdicts import Moment
from trackside.rules.catalogue import ConfiguredRule
from trackside.rules.role_collections import without_members
from trackside.rules.rule import Rule
from trackside.rules.selection import patterns, words
from trackside.trial.trial import Trial

MOST_NAMED = 3
LOSSES = "losses"
_BOOSTED = "a boosted model has no layers, weights, gradients or optimizer steps"
# Frameworks that show nothing of a network -> the reason.
WITHOUT_NETWORK = {
    **dict.fromkeys(BOOSTED, _BOOSTED),
    **dict.fromkeys(ESTIMATORS, "scikit-learn shows no gradients or optimizer steps of its estimators"),
}
_SHOWN = {
    "pytorch": "PyTorch",
    "keras": "Keras",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "scikit-learn": "scikit-learn",
}
COLLECTIONS, REGEX = "collection_names", "tensor_regex"  # the parameters, wherever a rule has them

_logger = logging.getLogger(__name__)


def verdict_without_inputs(
    configured: ConfiguredRule, moment: Moment, trial: Trial, *, answered: bool
) -> Verdict | None:
    """Return the verdict on a rule without input; None if the rule had something to judge.

    answered  True if the rule judged a step and lacked nothing

    Errors: `StorageError`.
    """
    if reason := nothing_to_judge(configured.rule, trial.model_facts, answered=answered):
        return verdicts.not_applicable(configured, moment, reason=reason)
    if not answered and (reason := _records_none(configured.rule, trial)):
        return verdicts.not_applicable(configured, moment, reason=reason)
    if not answered and sees_no_loss(configured.rule, trial.model_facts) and not trial.tensor_names(collection=LOSSES):
        has_backward = trial.model_facts is None or trial.model_facts.program.framework not in WITHOUT_NETWORK
        return verdicts.no_loss(configured, moment, has_backward=has_backward)
    parameters = configured.configuration.parameters
    selection = {name: text for name in (COLLECTIONS, REGEX) if (text := parameters.get(name, "").strip())}
    if not selection or not trial.names or any(_selected(selection, trial)):
        return None
    sentence = " or ".join(f"{name} {text!r}" for name, text in selection.items())
    return verdicts.selects_nothing(configured, moment, selection=sentence, fix=_fix(selection, trial))


def nothing_to_judge(rule: Rule, facts: ModelFacts | None, *, answered: bool = False) -> str:
    """Return why this program has nothing for the rule to judge, as a clause; "" if it may have."""
    if facts is None:
        return ""
    framework = facts.program.framework
    if rule.is_of_networks and (reason := WITHOUT_NETWORK.get(framework)):
        return reason
    if rule.judges_waiting and facts.is_of_fits:
        return "an estimator without losses shows no steps whose time could be measured"
    if rule.only_of and framework not in ("", *rule.only_of):
        return f"what it reads is recorded of {' and '.join(_SHOWN[each] for each in rule.only_of)} alone"
    try:
        reason = rule.nothing_to_judge(facts)
    except Exception as error:  # a rule may be anybody's code, and must not end the others
        _logger.error("The rule %s failed to decide whether it applies", rule.rule_id, exc_info=error)
        reason = ""
    return reason or ("" if answered else without_members(rule.watches, facts))


def _records_none(rule: Rule, trial: Trial) -> str:
    """Return why a run without any of the numbers that the rule reads has nothing to judge; "" with one, or no step."""
    end = trial.recorded_through
    if (
        not rule.numbers
        or end < 0
        or any(trial.columns(name, "mean", last_step=end, mode=None) for name in rule.numbers)
    ):
        return ""
    return f"the run records no {' or '.join(name.rpartition('/')[2].replace('_', ' ') for name in rule.numbers[:2])}"


def sees_no_loss(rule: Rule, facts: ModelFacts | None) -> bool:
    """Return True if the rule judges losses alone and the run has shown no loss so far.

    Of weights and gradients, which a rule may judge beside losses, a boosted model has none.
    """
    if facts is None or any(loss.name for loss in facts.losses) or LOSSES not in rule.watches:
        return False
    if facts.program.framework in WITHOUT_NETWORK:
        return True
    return set(rule.watches) == {LOSSES} and bool(facts.parameters)


def _selected(selection: Mapping[str, str], trial: Trial) -> Iterator[str]:
    for collection in words(selection.get(COLLECTIONS, "")):
        yield from trial.tensor_names(collection=collection)
    regexes = _regexes(selection.get(REGEX, ""))
    yield from (name for name in trial.names if any(regex.search(name) for regex in regexes))


def _regexes(text: str) -> tuple[NamePattern, ...]:
    try:
        return patterns(text)
    except re.error:  # a part of the list; what checked the parameter took the whole of it
        return ()


def _fix(selection: Mapping[str, str], trial: Trial) -> str:
    """Return a setting that would select a tensor."""
    if COLLECTIONS in selection:
        known = sorted(name for name, members in trial.collections.items() if members)
        return did_you_mean(next(iter(words(selection[COLLECTIONS])), ""), known)
    shown, rest = ", ".join(trial.names[:MOST_NAMED]), len(trial.names) - MOST_NAMED
    return f"The run has {shown}{f' and {rest} more' if rest > 0 else ''}."
