"""wrong-axis: a softmax that the facts about a loss show along another axis."""

from __future__ import annotations

from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts
from trackside.contracts.observations import OTHER_AXIS
from trackside.rules.program.wrong_axis import WrongAxis
from trackside.testing.rule_case import RuleCase, assert_case

RECORDED = {"Loss_output_0": {"mean": {0: 1.0, 10: 1.0}}}


def facts(places: int) -> ModelFacts:
    return ModelFacts(losses=(LossFacts("Loss_output_0", line="train.py:7", observed={OTHER_AXIS: places}),))


CASES = [
    RuleCase("another axis", recorded=RECORDED, facts=facts(24), fires=("Loss_output_0",)),
    RuleCase("one query", recorded=RECORDED, facts=facts(1), fires=("Loss_output_0",)),
    RuleCase("the right one", recorded=RECORDED, facts=facts(0)),
    RuleCase("no loss is known", recorded=RECORDED, facts=ModelFacts()),
    RuleCase("nothing is known", recorded=RECORDED),
]

test_cases = every_case(WrongAxis(), CASES)


def test_what_it_says() -> None:
    rule, case = WrongAxis(), CASES[0]
    findings = list(assert_case(rule, case))
    assert findings[0].place == "train.py:7"
    assert [one.cause for one in rule.suspicions(findings, case.window)] == [Cause.WRONG_AXIS]
    assert rule.sentence(findings).startswith("A softmax before Loss_output_0")


def test_what_it_lacks() -> None:
    assert [bool(WrongAxis().lacks(CASES[place].window)) for place in (0, 3, 4)] == [False, True, True]
