"""What a rule lacks, as far as it can be told before the first step: in one sentence, with what would work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.capture_request import ALL, BUILT_IN_COLLECTIONS, DEFAULT, CaptureRequest
from trackside.contracts.errors import did_you_mean
from trackside.contracts.rule_catalogue import RuleCatalogue, RuleDescription
from trackside.contracts.rule_request import RuleConfiguration
from trackside.documents.hook import ELSEWHERE

_COLLECTIONS, _OTHER_RUNS = "collection_names", "other_trials"  # parameters, wherever a rule has them


@dataclass(frozen=True)
class _Asked:
    """A rule, what is known of it (None: it is the user's own), which collections it watches, and which are saved."""

    rule: RuleConfiguration
    described: RuleDescription | None
    watched: tuple[str, ...]
    saved: frozenset[str]
    has_statistics: bool

    def offers(self, parameter: str) -> bool:
        return self.described is not None and any(each.name == parameter for each in self.described.parameters)


def what_is_lacking(
    rule: RuleConfiguration, watches: tuple[str, ...], catalogue: RuleCatalogue, capture: CaptureRequest
) -> str:
    """The sentence, which begins with the rule's name; empty: nothing is lacking, as far as anyone can tell.

    `watches` are the collections of a rule of the user's own; empty where that does not say. Whether the model has what
    the rule judges is told once there is a model.
    """
    built_in = None if rule.custom else catalogue.rules[rule.rule_id]
    asked = _Asked(
        rule=rule,
        described=(built_in.in_sense_of(rule.preset) or built_in) if built_in else None,
        watched=watches or tuple([collection.name for collection in catalogue.needs(rule).collections]),
        saved=_savable(capture),
        has_statistics=capture.statistics.enabled,
    )
    found = (sentence for look in _LOOKS if (sentence := look(asked)))
    lacking = next(found, "")
    return f"{rule.name} {lacking}" if lacking else ""


def _nothing_that_it_watches(asked: _Asked) -> str:
    """A rule that watches several collections judges by those that are there."""
    if not asked.watched or not asked.saved.isdisjoint(asked.watched):
        return ""
    fix = _hint(asked.watched, asked.saved)
    return f"cannot judge anything: nothing saves {' or '.join(asked.watched)}.{fix}"


def _no_statistics(asked: _Asked) -> str:
    if asked.watched or asked.has_statistics or asked.described is None:
        return ""
    return "needs the always-on statistics, which are switched off."


def _another_framework(asked: _Asked) -> str:
    watches = asked.described.watches if asked.described else ()
    elsewhere = [name for name in watches if name in ELSEWHERE and name not in asked.saved]
    return f"cannot judge anything: nothing saves {' or '.join(elsewhere)} in PyTorch." if elsewhere else ""


def _no_other_run(asked: _Asked) -> str:
    if not asked.offers(_OTHER_RUNS) or asked.rule.parameters.get(_OTHER_RUNS, "").strip():
        return ""
    return f"cannot judge anything: set {_OTHER_RUNS} to the runs that it shall compare with."


def _strange_collections(asked: _Asked) -> str:
    """No mistake for certain: the script may define collections of its own."""
    if not asked.offers(_COLLECTIONS):
        return ""
    names = asked.rule.parameters.get(_COLLECTIONS, "").replace(",", " ").split()
    strange = [name for name in names if name not in {*asked.saved, *BUILT_IN_COLLECTIONS, ALL, DEFAULT}]
    if not strange:
        return ""
    return f"looks at {' and '.join(strange)}, which only your script can save.{_hint(strange, asked.saved)}"


_LOOKS = (_nothing_that_it_watches, _no_statistics, _another_framework, _no_other_run, _strange_collections)


def _savable(capture: CaptureRequest) -> frozenset[str]:
    """The collections that are saved and of which something tells what belongs to them."""
    named = {c.name for c in capture.collections if c.include_regex or c.tensor_names}
    return frozenset(named | {c.name for c in capture.collections if c.name in {*BUILT_IN_COLLECTIONS, ALL, DEFAULT}})


def _hint(unknown: Sequence[str], saved: Iterable[str]) -> str:
    """Where a name is near; the list of all would be long."""
    hint = did_you_mean(unknown[0], {*BUILT_IN_COLLECTIONS, *saved})
    return f" {hint}" if hint.startswith("Did") else ""
