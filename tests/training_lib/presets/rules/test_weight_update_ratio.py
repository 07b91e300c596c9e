"""weight-update-ratio, as documented: how far a weight moved between two saved steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import Row, every_case
from trackside.contracts.model_facts import ModelFacts, ParameterFacts
from trackside.presets.rules.weight_update_ratio import DocumentedWeightUpdateRatio, update_ratio
from trackside.testing.rule_case import RuleCase

FIRST, LAST = "Net_a.weight", "Net_b.weight"
ONES = np.ones(4)
FROZEN = ModelFacts(parameters=(ParameterFacts(FIRST, "Net_a", (4,), "float32", requires_grad=False),))


USUAL_RULE = DocumentedWeightUpdateRatio()
FAR = DocumentedWeightUpdateRatio(num_steps=20, large_threshold=1.0)
FIRES = [
    Row("it moved by twelve times its size", {FIRST: {0: ONES, 10: 13 * ONES}}, fires=(FIRST,)),
    Row("it did not move", {FIRST: {0: ONES, 10: ONES}}, fires=(FIRST,)),
    Row("one of two", {FIRST: {0: ONES, 10: 1.01 * ONES}, LAST: {0: ONES, 10: ONES}}, fires=(LAST,)),
    Row("over the asked distance", {FIRST: {0: ONES, 10: 1.9 * ONES, 20: 2.5 * ONES}}, fires=(FIRST,), rule=FAR),
    Row("from zero", {FIRST: {0: 0 * ONES, 10: ONES}}, fires=(FIRST,)),
]
SILENT = [
    Row("it moved by a hundredth", {FIRST: {0: ONES, 10: 1.01 * ONES}}),
    Row("it was saved once", {FIRST: {0: ONES}}),
    Row("the hook says that it is frozen", {FIRST: {0: ONES, 10: ONES}}, facts=FROZEN),
    Row("not yet so far away", {FIRST: {0: ONES, 10: 2.5 * ONES}}, rule=FAR),
    Row("another shape", {FIRST: {0: ONES, 10: np.ones(5)}}),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


def test_it_lacks_a_second_step() -> None:
    assert DocumentedWeightUpdateRatio().lacks(RuleCase("one", {FIRST: {0: ONES}}).window)
    assert not DocumentedWeightUpdateRatio().lacks(RuleCase("two", {FIRST: {0: ONES, 5: ONES}}).window)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.floats(0.001, 1000))
def test_the_ratio_is_free_of_scale(weights: list[float], scale: float) -> None:
    before = np.array(weights) + 2e6  # away from zero
    after = before * 1.5
    assert update_ratio(before, after, epsilon=0) == pytest.approx(0.5)
    assert update_ratio(scale * before, scale * after, epsilon=0) == pytest.approx(0.5)


def test_zeros_over_zeros_have_no_ratio() -> None:
    assert update_ratio(np.zeros(2), np.zeros(2), epsilon=0) is None
    assert update_ratio(np.zeros(2), np.zeros(2), epsilon=1e-9) == 0
