"""inverted-mask: attention that reads padding alone; silent where it reads tokens."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from trackside.contracts.model_facts import ModelFacts, ModuleFacts
from trackside.contracts.observations import READS_PADDING
from trackside.rules.program.inverted_mask import InvertedMask
from trackside.testing.rule_case import RuleCase, assert_case

LOSS = {"Loss_output_0": {"mean": steady(1)}}


def case(name: str, calls: int, *, fires: bool = False) -> RuleCase:
    encoder = ModuleFacts("encoder", "TransformerEncoder", "other", observed={READS_PADDING: calls})
    facts = ModelFacts(modules=(ModuleFacts("Net", "Net", "other"), encoder))
    return RuleCase(name, recorded=LOSS, facts=facts, fires=("encoder",) if fires else ())


CASES = [
    case("at each look", 3, fires=True),
    case("twice", 2, fires=True),
    case("once", 1),
    case("never", 0),
    RuleCase("no facts", recorded=LOSS),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(InvertedMask(), case)
    assert not findings or "upside down" in InvertedMask().sentence(findings)
