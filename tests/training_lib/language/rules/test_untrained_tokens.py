"""untrained-tokens: frozen embeddings of added tokens."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import along, steady
from trackside.contracts.run.recorded_names import UNTRAINED_TOKENS
from trackside.language.rules.untrained_tokens import UntrainedTokens
from trackside.testing.rule_case import RuleCase, assert_case

CASES = [
    RuleCase("two in each batch", recorded={UNTRAINED_TOKENS: {"mean": steady(2, 20)}}, fires=(UNTRAINED_TOKENS,)),
    RuleCase("one", recorded={UNTRAINED_TOKENS: {"mean": steady(1, 20)}}, fires=(UNTRAINED_TOKENS,)),
    RuleCase("none", recorded={UNTRAINED_TOKENS: {"mean": steady(0, 20)}}),
    RuleCase("in two batches", recorded={UNTRAINED_TOKENS: {"mean": along([0, 1, 0, 1, 0])}}),
    RuleCase("not seen"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(UntrainedTokens(), case)
    assert not findings or UntrainedTokens().sentence(findings).endswith(".")
