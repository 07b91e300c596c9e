"""The input that a rule lacks, as far as known before the first step: one sentence with a cure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.capture_request import ALL, BUILT_IN_COLLECTIONS, DEFAULT, CaptureRequest
from trackside.contracts.errors import did_you_mean
from trackside.contracts.rule_catalogue import RuleCatalogue, RuleDescription
from trackside.contracts.rule_request import RuleConfiguration

_COLLECTIONS, _OTHER_RUNS = "collection_names", "other_trials"  # parameters, wherever a rule has them


@dataclass(frozen=True)
class _RuleInput:
    """A rule, and the facts that show its input.

    described       its description; None for a rule of the user's own
    watched         collections it watches
    saved           collections that are saved
    has_statistics  True if the always-on statistics are on
    """

    rule: RuleConfiguration
    described: RuleDescription | None
    watched: tuple[str, ...]
    saved: frozenset[str]
    has_statistics: bool

    def offers(self, parameter: str) -> bool:
        return self.described is not None and any(each.name == parameter for each in self.described.parameters)


def lacking_input(
    rule: RuleConfiguration, watches: tuple[str, ...], catalogue: RuleCatalogue, capture: CaptureRequest
) -> str:
    """Return a sentence about missing input that begins with the rule's name; "" if none is known to be missing.

    `watches` are the collections of a user's own rule; empty if it names none. Whether the model has anything for the
    rule to judge is checked once the model is known.
    """
    built_in = None if rule.custom else catalogue.rules[rule.rule_id]
    rule_input = _RuleInput(
        rule=rule,
        described=(built_in.in_sense_of(rule.preset) or built_in) if built_in else None,
        watched=watches or tuple([collection.name for collection in catalogue.needs(rule).collections]),
        saved=_savable(capture),
        has_statistics=capture.statistics.enabled,
    )
    found = (sentence for look in _LOOKS if (sentence := look(rule_input)))
    lacking = next(found, "")
    return f"{rule.name} {lacking}" if lacking else ""


def _no_watched_collection(rule_input: _RuleInput) -> str:
    """Return a clause if no watched collection is saved. One of several is enough for a rule."""
    if not rule_input.watched or not rule_input.saved.isdisjoint(rule_input.watched):
        return ""
    fix = _hint(rule_input.watched, rule_input.saved)
    return f"cannot judge anything: nothing saves {' or '.join(rule_input.watched)}.{fix}"


def _no_statistics(rule_input: _RuleInput) -> str:
    if rule_input.watched or rule_input.has_statistics or rule_input.described is None:
        return ""
    return "needs the always-on statistics, which are switched off."


def _no_other_run(rule_input: _RuleInput) -> str:
    if not rule_input.offers(_OTHER_RUNS) or rule_input.rule.parameters.get(_OTHER_RUNS, "").strip():
        return ""
    return f"cannot judge anything: set {_OTHER_RUNS} to the runs that it shall compare with."


def _strange_collections(rule_input: _RuleInput) -> str:
    """Return a clause about unknown collections.

    Not certainly a mistake: the script may define collections of its own.
    """
    if not rule_input.offers(_COLLECTIONS):
        return ""
    names = rule_input.rule.parameters.get(_COLLECTIONS, "").replace(",", " ").split()
    strange = [name for name in names if name not in {*rule_input.saved, *BUILT_IN_COLLECTIONS, ALL, DEFAULT}]
    if not strange:
        return ""
    return f"looks at {' and '.join(strange)}, which only your script can save.{_hint(strange, rule_input.saved)}"


_LOOKS = (_no_watched_collection, _no_statistics, _no_other_run, _strange_collections)


def _savable(capture: CaptureRequest) -> frozenset[str]:
    """Return the collections that are saved and have known members."""
    named = {c.name for c in capture.collections if c.include_regex or c.tensor_names}
    return frozenset(named | {c.name for c in capture.collections if c.name in {*BUILT_IN_COLLECTIONS, ALL, DEFAULT}})


def _hint(unknown: Sequence[str], saved: Iterable[str]) -> str:
    """Return a suggestion if a known name is similar. A list of all names would be long."""
    hint = did_you_mean(unknown[0], {*BUILT_IN_COLLECTIONS, *saved})
    return f" {hint}" if hint.startswith("Did") else ""
