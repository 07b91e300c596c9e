"""A catalogue that no rule of ours on tensors can change. The profiler rules are those that ship."""

from __future__ import annotations

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.rule_catalogue import (
    ParameterDescription,
    RuleCatalogue,
    RuleDescription,
    built_in_catalogue,
)
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Severity
from trackside.documents.profiler_rules import PROFILER_RULES


def number(name: str) -> ParameterDescription:
    return ParameterDescription(name, "number", 1.0, "", 0, 1000)


def rule(
    rule_id: str, watches: tuple[str, ...], *names: str, save_interval: int = 20, needs: tuple[str, ...] = ()
) -> RuleDescription:
    return RuleDescription(
        rule_id,
        "Finds.",
        watches,
        save_interval,
        Severity.CRITICAL,
        "0.1",
        tuple(ParameterDescription(n, "text", "", "") if n.startswith(("other", "coll")) else number(n) for n in names),
        needs=tuple(CollectionRequest(name, Schedule(save_interval)) for name in needs) or None,
    )


def in_amazons_sense(found: RuleDescription, *names: str) -> RuleDescription:
    theirs = rule(found.rule_id, found.watches, *names, save_interval=500)
    return RuleDescription(**{**vars(found), "presets": {AWS_DOCS: theirs, AWS_SDK: theirs}})


CATALOGUE = RuleCatalogue(
    {
        found.rule_id: found
        for found in (
            in_amazons_sense(rule("vanishing-gradient", ("gradients",), "threshold", "patience"), "threshold"),
            in_amazons_sense(rule("exploding-tensor", ("losses", "weights"), "collection_names"), "collection_names"),
            rule("gradient-clipping", ("raw_gradients",), "share"),
            rule("stalled-training", ("losses",), "threshold"),
            rule("similar-across-runs", ("weights",), "other_trials"),
            rule("loss-not-decreasing", ("losses",), "num_steps"),
        )
    }
    | {rule_id: found for rule_id, found in built_in_catalogue().rules.items() if rule_id in PROFILER_RULES}
)
