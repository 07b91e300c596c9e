"""The state of a metric alarm, from its samples: CloudWatch's rules, as a function.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

OK, ALARM, INSUFFICIENT_DATA = "OK", "ALARM", "INSUFFICIENT_DATA"

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}


@dataclass(frozen=True)
class AlarmQuestion:
    """The question of an alarm. `statistic`: Sum, Average, Minimum, Maximum, SampleCount or a percentile (p99)."""

    statistic: str
    period_seconds: int
    evaluation_periods: int
    datapoints_to_alarm: int
    comparison: str
    threshold: float
    treat_missing_data: str = "missing"


@dataclass(frozen=True)
class AlarmAnswer:
    """The state of an alarm, and its reason as a sentence."""

    state: str
    reason: str


def evaluate(question: AlarmQuestion, samples: Sequence[tuple[float, float]], *, now: float, state: str) -> AlarmAnswer:
    """`samples`: (seconds since the epoch, value). `state`: the present one, which `ignore` keeps.

    The newest period ends now, not at a full minute, so that an alarm of one period answers at once.
    """
    points = [_datapoint(question, samples, now=now, age=age) for age in range(question.evaluation_periods)]
    known = [point for point in points if point is not None]
    if not known:
        return _without_data(question, state)
    breaching = sum(_COMPARISONS[question.comparison](point, question.threshold) for point in known)
    missing = len(points) - len(known)
    if question.treat_missing_data == "breaching":
        breaching += missing
    how = f"{breaching} of the last {len(points)} datapoints {_word(question)} the threshold ({question.threshold:g})"
    newest = f"newest: {known[0]:g}"
    if breaching >= question.datapoints_to_alarm:
        return AlarmAnswer(ALARM, f"Threshold Crossed: {how}; {newest}.")
    return AlarmAnswer(OK, f"Threshold not crossed: {how}; {newest}.")


def _datapoint(
    question: AlarmQuestion, samples: Sequence[tuple[float, float]], *, now: float, age: int
) -> float | None:
    end = now - age * question.period_seconds
    values = [value for at, value in samples if end - question.period_seconds < at <= end]
    return statistic(question.statistic, values) if values else None


def statistic(name: str, values: Sequence[float]) -> float:
    """Return a statistic of the values. Errors: `ValueError` for an unknown one."""
    simple: Mapping[str, Callable[[Sequence[float]], float]] = {
        "Sum": sum,
        "Minimum": min,
        "Maximum": max,
        "SampleCount": len,
        "Average": lambda each: sum(each) / len(each),
    }
    if name in simple:
        return simple[name](values)
    if name.startswith("p") and name[1:].replace(".", "", 1).isdigit():
        rank = math.ceil(float(name[1:]) / 100 * len(values))
        return sorted(values)[max(rank, 1) - 1]
    raise ValueError(f"The statistic {name!r} is not known here. Known: {', '.join(simple)}, p0 to p100.")


def _without_data(question: AlarmQuestion, state: str) -> AlarmAnswer:
    states = {"breaching": ALARM, "notBreaching": OK, "ignore": state}
    return AlarmAnswer(states.get(question.treat_missing_data, INSUFFICIENT_DATA), "No datapoints were received.")


def _word(question: AlarmQuestion) -> str:
    return "were greater than" if question.comparison.startswith("Greater") else "were less than"
