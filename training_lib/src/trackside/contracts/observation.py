"""A measured value against its limit in words: `mean |gradient|: 3.1e-12, below the limit of 1e-07`."""

from __future__ import annotations

import re

from trackside.contracts.run.recorded_names import RECORDED

_SMALLEST = 1e-300  # of a limit that readers need: below, it stands for zero
# The end or beginning of a measure that names its unit: words that remain, unit, factor of the value
_UNITS = (
    (re.compile(r"(.+?),? in %"), r"\1", "%", 1.0),
    (re.compile(r"((?:\w+ )?share of .+)"), r"\1", "%", 100.0),
    (re.compile(r"seconds (.+)"), r"time \1", " s", 1.0),
    (re.compile(r"(.+), in tolerances"), r"\1", " tolerances", 1.0),
)
_TIMES = ", times"
_MOST_IN_FULL = 1e6


def in_words(measure: str, observed: float, relation: str, limit: float) -> str:
    """Return an observation as a clause with numbers and units.

    Args:
        measure: The measured quantity, and its unit: `dead units in %`.
        observed: The measured value.
        relation: `<` or `>`: the observed value is below or above the limit.
        limit: The limit.
    """
    if measure.endswith(_TIMES):
        return f"{measure.removesuffix(_TIMES)}: {'once' if observed == 1 else f'{_number(observed)} times'}"
    name, unit, factor = _unit_of(measure)
    value = f"{name}: {_number(observed * factor)}{unit}"
    if relation == "<" and observed == 0 and limit == 1 and not unit:
        return f"{name}: none"
    if (relation == ">" and limit == 0) or 0 < abs(limit) < _SMALLEST:
        return value
    side = "above" if relation == ">" else "below"
    return f"{value}, {side} the limit of {_number(limit * factor)}{unit}"


def is_recorded_number(subject: str) -> bool:
    """Return True if a subject is a number that a run records of itself: its name means nothing to users.

    Args:
        subject: The subject of a finding.
    """
    return subject.startswith(RECORDED)


def _unit_of(measure: str) -> tuple[str, str, float]:
    for pattern, rest, unit, factor in _UNITS:
        if found := pattern.fullmatch(measure):
            return found.expand(rest), unit, factor
    return measure, "", 1.0


def _number(value: float) -> str:
    """Return at most four digits, whole numbers up to a million in full."""
    is_whole = abs(value) < _MOST_IN_FULL and value == int(value)
    return f"{int(value):,}" if is_whole else f"{value:.4g}"
