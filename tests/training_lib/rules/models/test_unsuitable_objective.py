"""unsuitable-objective: gradients with the wrong sign, and second derivatives that are none, or of another scale."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import along, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import (
    GRADIENTS_AGAINST_PREDICTIONS as AGAINST,
)
from trackside.contracts.run.recorded_names import (
    SECOND_DERIVATIVES_OVER_SLOPE as SCALE,
)
from trackside.contracts.run.recorded_names import (
    SECOND_DERIVATIVES_POSITIVE as POSITIVE,
)
from trackside.contracts.verdict import Severity
from trackside.rules.models.unsuitable_objective import UnsuitableObjective
from trackside.testing.rule_case import RuleCase, assert_case


def case(name: str, fires: str = "", **numbers: list[float]) -> RuleCase:
    names = {"against": AGAINST, "positive": POSITIVE, "scale": SCALE}
    recorded = {names[key]: {"mean": along(values)} for key, values in numbers.items()}
    return RuleCase(name, recorded=recorded, fires=(fires,) if fires else ())


CASES = [
    case("the wrong sign", "objective", against=[1.0, 0.98], positive=[1.0] * 3, scale=[1.0]),
    case("no curve", "objective", positive=[0.0, 0.0, 0.05]),
    case("second derivatives a thousand times too large", "objective", positive=[1.0] * 3, scale=[900.0, 1100.0]),
    case("a thousand times too small", "objective", positive=[1.0] * 3, scale=[0.001, 0.0012]),
    case("as they are to be", against=[0.0, 0.0], positive=[1.0] * 3, scale=[1.1, 0.9]),
    case("an upper bound of them", against=[0.0, 0.0], positive=[1.0] * 3, scale=[4.0, 30.0]),
    case("some rows where the loss is not convex", against=[0.5, 0.6], positive=[0.7, 0.6]),
    case("once", against=[1.0, 0.0], positive=[0.0, 1.0], scale=[500.0, 2.0]),
    RuleCase("no objective of its own", recorded={"logloss_output_0": {"mean": steady(1)}}),
]

test_cases = every_case(UnsuitableObjective(), CASES)


@pytest.mark.parametrize(
    ("place", "cause", "grade"),
    [
        (0, Cause.LOSS_SIGN, Severity.CRITICAL),
        (1, Cause.WRONG_LOSS, Severity.CRITICAL),
        (2, Cause.WRONG_LOSS, Severity.WARNING),
        (3, Cause.WRONG_LOSS, Severity.WARNING),
    ],
)
def test_the_cause(place: int, cause: Cause, grade: Severity) -> None:
    findings = list(assert_case(UnsuitableObjective(), CASES[place]))
    assert [one.cause for one in UnsuitableObjective().suspicions(findings, CASES[place].window)] == [cause]
    assert findings[0].grade is grade


def test_what_it_lacks() -> None:
    assert [bool(UnsuitableObjective().lacks(CASES[place].window)) for place in (0, -1)] == [False, True]
