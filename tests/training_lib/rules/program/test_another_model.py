"""another-model: a model that is made anew, or that nothing has trained; silent without one."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, ProgramFacts
from trackside.contracts.observations import MODEL_ANEW_EVERY, UNTRAINED_EVALUATIONS
from trackside.rules.program.another_model import AnotherModel
from trackside.testing.rule_case import RuleCase, assert_case

LOSS = {"Loss_output_0": {"mean": steady(1)}}


def case(name: str, *, anew: int = 0, untrained: int = 0, fires: bool = False) -> RuleCase:
    seen = {MODEL_ANEW_EVERY: anew, UNTRAINED_EVALUATIONS: untrained}
    facts = ModelFacts(modules=(ModuleFacts("Net", "Net"),), program=ProgramFacts(observed=seen))
    return RuleCase(name, recorded=LOSS, facts=facts, fires=("Net",) if fires else ())


CASES = [
    case("anew at each pass", anew=20, fires=True),
    case("fresh weights evaluated", untrained=3, fires=True),
    case("once or twice", untrained=2),
    case("neither"),
    RuleCase("no facts", recorded=LOSS),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(AnotherModel(), case)
    assert not findings or any(words in AnotherModel().sentence(findings) for words in ("every 20 steps", "fresh"))
