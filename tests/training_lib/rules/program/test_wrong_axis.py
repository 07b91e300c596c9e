"""wrong-axis: a softmax along another axis, a view that moves one, and inputs in another order."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts
from trackside.contracts.observations import MOVED_AXIS, OTHER_AXIS, OTHER_ORDER, Observation
from trackside.rules.program.wrong_axis import WrongAxis
from trackside.testing.rule_case import RuleCase, assert_case

RECORDED = {"Loss_output_0": {"mean": {0: 1.0, 10: 1.0}}}


def facts(places: int, observation: Observation[int] = OTHER_AXIS) -> ModelFacts:
    return ModelFacts(losses=(LossFacts("Loss_output_0", line="train.py:7", observed={observation: places}),))


def reading(order: str) -> ModelFacts:
    conv = ModuleFacts("Net_conv", "Conv2d", line="train.py:3", observed={OTHER_ORDER: order})
    return ModelFacts(modules=(conv, ModuleFacts("Net_head", "Linear")))


CASES = [
    RuleCase("another axis", recorded=RECORDED, facts=facts(24), fires=("Loss_output_0",)),
    RuleCase("one query", recorded=RECORDED, facts=facts(1), fires=("Loss_output_0",)),
    RuleCase("a view", recorded=RECORDED, facts=facts(16, MOVED_AXIS), fires=("Loss_output_0",)),
    RuleCase("inputs", recorded=RECORDED, facts=reading("rows, columns, channels"), fires=("Net_conv",)),
    RuleCase("inputs in order", recorded=RECORDED, facts=reading("")),
    RuleCase("no view", recorded=RECORDED, facts=facts(0, MOVED_AXIS)),
    RuleCase("the right one", recorded=RECORDED, facts=facts(0)),
    RuleCase("no loss is known", recorded=RECORDED, facts=ModelFacts()),
    RuleCase("nothing is known", recorded=RECORDED),
]

test_cases = every_case(WrongAxis(), CASES)


@pytest.mark.parametrize(
    ("number", "begin", "place"),
    [
        pytest.param(0, "A softmax before Loss_output_0", "train.py:7", id="a softmax"),
        pytest.param(2, "A view before Loss_output_0 moves an axis of 16", "train.py:7", id="a view"),
        pytest.param(3, "What Net_conv reads", "train.py:3", id="inputs"),
    ],
)
def test_what_it_says(number: int, begin: str, place: str) -> None:
    rule, case = WrongAxis(), CASES[number]
    findings = list(assert_case(rule, case))
    assert findings[0].place == place
    assert [one.cause for one in rule.suspicions(findings, case.window)] == [Cause.WRONG_AXIS]
    assert rule.sentence(findings).startswith(begin)


def test_what_it_lacks() -> None:
    lacking = [case.name for case in CASES if WrongAxis().lacks(case.window)]
    assert lacking == ["inputs", "inputs in order", "no loss is known", "nothing is known"]
