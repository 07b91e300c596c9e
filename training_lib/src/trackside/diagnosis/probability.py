"""The probability that an issue is real, from its rule and the strength of its evidence. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Collection

from trackside.contracts.verdict import Severity, Verdict
from trackside.diagnosis.learned import Odds
from trackside.diagnosis.signs import SHOWN

INFO, HARM, CERTAIN, WITH_OTHERS = "info", "harm", "certain", "with-others"
PROPERTIES = (INFO, HARM, CERTAIN, WITH_OTHERS)


def properties_of(verdict: Verdict, *, others: Collection[str]) -> tuple[str, ...]:
    """Return the properties of an issue that make it more or less probable.

    Args:
        verdict: The issue.
        others: Other rules with a standing issue of its group.
    """
    holds = {
        INFO: verdict.severity is Severity.INFO,
        HARM: bool(verdict.harm),
        CERTAIN: any(sign.is_present and sign.name.startswith(SHOWN) for sign in verdict.signs),
        WITH_OTHERS: bool(others),
    }
    return tuple(name for name in PROPERTIES if holds[name])


def probability_of(rule_id: str, properties: Collection[str], odds: Odds) -> float:
    """Return the probability that an issue is real.

    Args:
        rule_id: The rule.
        properties: The properties of the issue.
        odds: The learned weights.
    """
    score = odds.bias + odds.rules.get(rule_id, 0.0) + sum(odds.extra.get(name, 0.0) for name in properties)
    return 1 / (1 + math.exp(-score))
