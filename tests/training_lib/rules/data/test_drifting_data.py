"""drifting-data: a store of rows that each pass changes; silent without one."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.observations import DRIFTING_DATA
from trackside.rules.data.drifting_data import DriftingData
from trackside.testing.rule_case import RuleCase, assert_case

LOSS = {"Loss_output_0": {"mean": steady(1)}}


def facts(store: str) -> ModelFacts:
    return ModelFacts(program=ProgramFacts(observed={DRIFTING_DATA: store}))


CASES = [
    RuleCase("a store drifts", recorded=LOSS, facts=facts("Images.rows"), fires=("Images.rows",)),
    RuleCase("none does", recorded=LOSS, facts=facts("")),
    RuleCase("no facts", recorded=LOSS),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(DriftingData(), case)
    assert not findings or "Images.rows are changed in place" in DriftingData().sentence(findings)
