"""The rules of a preset, as a user would ask for them."""

from __future__ import annotations

from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import CALIBRATED, RuleConfiguration


def rules_of(preset: str) -> tuple[RuleConfiguration, ...]:
    """Every built-in rule that judges where nobody chose any and has this preset, with its defaults."""
    chosen = []
    catalogue = built_in_catalogue()
    for rule_id in catalogue.usual:
        description = catalogue.rules[rule_id]
        if preset == CALIBRATED:
            chosen.append(RuleConfiguration(rule_id))
        elif preset in description.presets:
            chosen.append(RuleConfiguration(rule_id, preset=preset))
    return tuple(chosen)
