"""trained-target: gradients into a target or an advantage that the facts about a loss show."""

from __future__ import annotations

import pytest

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts
from trackside.contracts.observations import OVERWRITTEN_COPIES, TRAINED_SIGNAL
from trackside.rules.data.trained_target import TrainedTarget
from trackside.testing.rule_case import RuleCase, assert_case

RECORDED = {"Loss_output_0": {"mean": {0: 1.0, 10: 1.0}}}


def facts(signal: str) -> ModelFacts:
    return ModelFacts(losses=(LossFacts("Loss_output_0", line="train.py:7", observed={TRAINED_SIGNAL: signal}),))


def trained(looks: int) -> ModelFacts:
    adam = OptimizerFacts("Adam", "Adam", line="train.py:7", observed={OVERWRITTEN_COPIES: looks})
    return ModelFacts(losses=(LossFacts("Loss_output_0"),), optimizers=(adam,))


CASES = [
    RuleCase("a target", recorded=RECORDED, facts=facts("target"), fires=("Loss_output_0",)),
    RuleCase("an advantage", recorded=RECORDED, facts=facts("advantage"), fires=("Loss_output_0",)),
    RuleCase("a copy", recorded=RECORDED, facts=trained(1), fires=("Adam",)),
    RuleCase("no copy", recorded=RECORDED, facts=trained(0)),
    RuleCase("neither", recorded=RECORDED, facts=facts("")),
    RuleCase("no loss is known", recorded=RECORDED, facts=ModelFacts()),
    RuleCase("nothing is known", recorded=RECORDED),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    assert_case(TrainedTarget(), case)


@pytest.mark.parametrize(
    ("number", "words"), [(0, "into its own target"), (1, "trains the critic"), (2, "trains a copy")]
)
def test_what_it_says(number: int, words: str) -> None:
    rule, case = TrainedTarget(), CASES[number]
    findings = list(assert_case(rule, case))
    assert findings[0].place == "train.py:7"
    assert [one.cause for one in rule.suspicions(findings, case.window)] == [Cause.TRAINED_TARGET]
    assert words in rule.sentence(findings)


def test_what_it_lacks() -> None:
    assert [bool(TrainedTarget().lacks(case.window)) for case in CASES] == [False] * 5 + [True] * 2
