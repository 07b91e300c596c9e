"""passes-without-step: backward passes go on, and the optimizer no longer steps."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from trackside.contracts.recorded_names import PASSES_WITHOUT_STEP
from trackside.rules.program.passes_without_step import PassesWithoutStep
from trackside.testing.rule_case import RuleCase, Statistics, assert_case

LOSS = {"Loss_output_0": {"mean": steady(1)}}


def noted(values: dict[int, object]) -> Statistics:
    return {**LOSS, PASSES_WITHOUT_STEP: {"mean": values}}


CASES = [
    RuleCase("many passes since the newest step", recorded=noted({59: 50.0}), fires=("steps",)),
    RuleCase("very many passes since the newest step", recorded=noted({59: 6400.0}), fires=("steps",)),
    RuleCase("on one of two workers", recorded=noted({59: {"worker_0": 10.0, "worker_1": 60.0}}), fires=("steps",)),
    RuleCase("steps came again", recorded=noted({20: 400.0})),
    RuleCase("few passes", recorded=noted({59: 49.0})),
    RuleCase("nothing noted", recorded=LOSS),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    assert_case(PassesWithoutStep(), case)
