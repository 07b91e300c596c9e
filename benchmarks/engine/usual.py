"""The rules and the capture of a source: those of `trackside run` without any option, or those of all presets."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from trackside.choosing.preflight import plan_rules
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import CALIBRATED, PRESETS, RuleConfiguration, RuleRequest


def rules_of(preset: str = CALIBRATED) -> tuple[RuleConfiguration, ...]:
    """Return every rule that judges where nobody chose any and has this preset, with its defaults."""
    catalogue = built_in_catalogue()
    if preset == CALIBRATED:
        return tuple(RuleConfiguration(rule_id) for rule_id in catalogue.usual)
    chosen = [rule_id for rule_id in catalogue.usual if preset in catalogue.rules[rule_id].presets]
    return tuple(RuleConfiguration(rule_id, preset=preset) for rule_id in chosen)


def speed_rules() -> list[str]:
    """Return the rules about speed."""
    return [rule_id for rule_id, rule in built_in_catalogue().rules.items() if rule.code.startswith("TS4")]


@cache
def usual_capture(*, budget: float | None = None) -> CaptureRequest:
    """Return the capture of `trackside run` without any option.

    Args:
        budget: Share of the time that statistics may cost. By default that of a run, within which trainings rest; 1
            does not bind, so that slow machines thin nothing out.
    """
    captured = plan_rules([], catalogue=built_in_catalogue(), actions=()).capture
    if budget is None:
        return captured
    return captured.merged_with(CaptureRequest(statistics=StatisticsRequest(budget=budget)))


def whole_capture() -> CaptureRequest:
    """Return a capture of every loss, and of what the rules of all presets ask for.

    Statistics may cost what they like: a corpus is to say the same on every machine, and the steps of small networks
    take less time than any measurement.
    """
    merged = CaptureRequest((CollectionRequest("losses", Schedule(1)),), statistics=StatisticsRequest(budget=1.0))
    for preset in PRESETS:
        merged = merged.merged_with(built_in_catalogue().capture_request(RuleRequest(rules_of(preset))))
    # Sorted: stored runs are found by this request, whatever the order of the rules that ask for the same.
    return replace(merged, collections=tuple(sorted(merged.collections, key=lambda collection: collection.name)))
