"""mixed-documents: documents of a packed row see one another."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, ProgramFacts
from trackside.contracts.observations import MIXED_DOCUMENTS
from trackside.language.rules.mixed_documents import MixedDocuments
from trackside.testing.rule_case import RuleCase, assert_case

LOSS = {"Loss_output_0": {"mean": steady(1)}}


def mixed(calls: int) -> ModelFacts:
    program = ProgramFacts(observed={MIXED_DOCUMENTS: calls} if calls else {})
    return ModelFacts(modules=(ModuleFacts("Llama", "Llama"),), program=program)


CASES = [
    RuleCase("three calls", recorded=LOSS, facts=mixed(3), fires=("Llama",)),
    RuleCase("two calls", recorded=LOSS, facts=mixed(2), fires=("Llama",)),
    RuleCase("one call", recorded=LOSS, facts=mixed(1)),
    RuleCase("no call", recorded=LOSS, facts=mixed(0)),
    RuleCase("no facts", recorded=LOSS),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(MixedDocuments(), case)
    assert not findings or MixedDocuments().sentence(findings).endswith(".")
    assert bool(MixedDocuments().lacks(case.window)) is (case.name == "no facts")
