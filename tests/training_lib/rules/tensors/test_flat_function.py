"""flat-function: functions without a slope that the facts about losses show."""

from __future__ import annotations

from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts
from trackside.contracts.observations import FLAT_FUNCTION
from trackside.rules.tensors.flat_function import FlatFunction
from trackside.testing.rule_case import RuleCase, assert_case

RECORDED = {"Loss_output_0": {"mean": {0: 1.0, 10: 1.0}}}


def facts(*found: tuple[str, ...]) -> ModelFacts:
    return ModelFacts(
        losses=tuple(
            LossFacts(f"Loss_output_{place}", line="train.py:7", observed={FLAT_FUNCTION: one})
            for place, one in enumerate(found)
        )
    )


CASES = [
    RuleCase("two weights", recorded=RECORDED, facts=facts(("round", "(2, 3)", "(4, 2)")), fires=("Loss_output_0",)),
    RuleCase("a weight", recorded=RECORDED, facts=facts(("sign", "(2, 3)")), fires=("Loss_output_0",)),
    RuleCase("none", recorded=RECORDED, facts=facts(())),
    RuleCase("another loss reaches them", recorded=RECORDED, facts=facts(("sign", "(2, 3)"), ())),
    RuleCase("no loss is known", recorded=RECORDED, facts=ModelFacts()),
    RuleCase("nothing is known", recorded=RECORDED),
]


test_cases = every_case(FlatFunction(), CASES)


def test_its_sentence_and_place() -> None:
    rule = FlatFunction()
    for case, words in ((CASES[0], "round to 2 parameters."), (CASES[1], "sign to 1 parameter.")):
        findings = list(assert_case(rule, case))
        assert findings[0].place == "train.py:7"
        assert [one.cause for one in rule.suspicions(findings, case.window)] == [Cause.FLAT_FUNCTION]
        assert rule.sentence(findings).endswith(words)


def test_what_it_lacks() -> None:
    assert [bool(FlatFunction().lacks(case.window)) for case in CASES] == [False] * 4 + [True] * 2
