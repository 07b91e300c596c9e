"""lost-updates: steps are smaller than the resolution of half-precision weights, and rounding undoes them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.training_lib.rules.columns import along, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.model_facts import ModelFacts, ParameterFacts
from trackside.contracts.run.recorded_names import LOST_UPDATES
from trackside.rules.program.lost_updates import LostUpdates
from trackside.testing.rule_case import RuleCase, Statistics


def lost(values: Mapping[int, object]) -> Statistics:
    return {LOST_UPDATES: {"mean": values}}


def weights(dtype: str) -> ModelFacts:
    return ModelFacts(parameters=(ParameterFacts("Net_fc.weight", "fc", (8, 6), dtype),))


CASES = [
    RuleCase("nearly all", recorded=lost(steady(0.97, 8, every=10)), fires=(LOST_UPDATES,)),
    RuleCase("all", recorded=lost(steady(1, 5, every=10)), fires=(LOST_UPDATES,)),
    RuleCase("more and more", recorded=lost(along([0.2, 0.6] + [0.95] * 6, every=10)), fires=(LOST_UPDATES,)),
    RuleCase("known weights", recorded=lost(steady(0.97, 8)), facts=weights("bfloat16"), fires=("Net_fc.weight",)),
    RuleCase("half of them", recorded=lost(steady(0.5, 8, every=10))),
    RuleCase("too early to tell", recorded=lost(steady(1, 4, every=10))),
    RuleCase("one step without an update", recorded=lost(along([0.1] * 6 + [1.0, 0.1], every=10))),
    RuleCase("some that moves again", recorded=lost(along([0.95] * 8 + [0.3], every=10))),
    RuleCase("nothing measured", recorded={"Loss_output_0": {"mean": steady(1)}}),
]

test_cases = every_case(LostUpdates(), CASES)


@pytest.mark.parametrize(("dtype", "applies"), [("bfloat16", True), ("float16", True), ("float32", False)])
def test_it_is_for_half_precision(dtype: str, applies: bool) -> None:
    assert (LostUpdates().nothing_to_judge(weights(dtype)) == "") is applies
