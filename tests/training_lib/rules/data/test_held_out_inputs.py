"""held-out-inputs: inputs of evaluations that change, and that are scaled by themselves."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import along, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts
from trackside.contracts.run.recorded_names import (
    HELD_OUT_INPUTS_CHANGED,
    HELD_OUT_INPUTS_OWN_STATISTICS,
    HELD_OUT_LABELS_HIGHEST,
    HELD_OUT_LABELS_UNTRAINED,
)
from trackside.rules.data.held_out_inputs import HeldOutInputs
from trackside.testing.rule_case import RuleCase, assert_case


def case(name: str, *, changed: list[float] | None = None, own: list[float] | None = None, fires: bool) -> RuleCase:
    given = {HELD_OUT_INPUTS_CHANGED: changed, HELD_OUT_INPUTS_OWN_STATISTICS: own}
    recorded = {number: {"mean": along(values)} for number, values in given.items() if values is not None}
    return RuleCase(name, recorded=recorded, fires=("inputs",) if fires else ())


def of_labels(name: str, *shares: float, classes: int | None = 10, highest: int = 9, fires: bool = False) -> RuleCase:
    numbers = {HELD_OUT_LABELS_UNTRAINED: shares, HELD_OUT_LABELS_HIGHEST: [highest] * len(shares)}
    return RuleCase(
        name,
        recorded={number: {"mean": along(values)} for number, values in numbers.items()},
        facts=ModelFacts(losses=(LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", class_count=classes),)),
        fires=("labels",) if fires else (),
    )


CASES = [
    case("changed each time", changed=[1.0, 1.0, 1.0], fires=True),
    case("changed from some time on", changed=[0.0, 1.0, 1.0, 1.0], fires=True),
    case("scaled by themselves", changed=[0.0, 0.0], own=[1.0, 1.0], fires=True),
    case("most columns scaled by themselves", own=[0.7, 0.7], fires=True),
    case("the same each time", changed=[0.0] * 5, own=[0.0] * 5, fires=False),
    case("changed twice so far", changed=[1.0, 1.0], fires=False),
    case("changed now and then", changed=[1.0, 0.0, 1.0, 0.0], fires=False),
    case("one column of ten by chance", own=[0.1, 0.1], fires=False),
    case("once scaled by themselves", own=[1.0, 0.0], fires=False),
    of_labels("classes of which the training has none", 1.0, 1.0, fires=True),
    of_labels("half of them, since the second evaluation", 0.1, 0.5, 0.5, fires=True),
    of_labels("a class that the training lacks by chance", 0.04, 0.04),
    of_labels("classes of which it has none, once", 1.0, 0.0, 1.0),
    of_labels("one evaluation", 1.0),
    of_labels("classes that the scores have no place for", 1.0, 1.0, highest=10),
    of_labels("no loss of classes", 1.0, 1.0, classes=None),
    RuleCase("nothing recorded of it", recorded={"Loss_output_0": {"mean": steady(1)}}),
]

test_cases = every_case(HeldOutInputs(), CASES)


@pytest.mark.parametrize(
    ("place", "cause"), [(0, Cause.RANDOM_EVALUATION), (2, Cause.OWN_STATISTICS), (9, Cause.SORTED_SPLIT)]
)
def test_the_cause(place: int, cause: Cause) -> None:
    findings = list(assert_case(HeldOutInputs(), CASES[place]))
    assert [one.cause for one in HeldOutInputs().suspicions(findings, CASES[place].window)] == [cause]


def test_what_it_lacks() -> None:
    assert [bool(HeldOutInputs().lacks(CASES[place].window)) for place in (0, -1)] == [False, True]
