"""tensor-variance: bounds of the user's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.rules.tensors.tensor_variance import TensorVariance, beyond
from trackside.testing.rule_case import RuleCase, assert_case

WEIGHT, OWN = "Net_fc.weight", "Net_hidden"
UNIT, LARGE, TINY = np.array([-1.0, 1.0]), np.array([-4.0, 4.0]), np.array([-1e-4, 1e-4])  # variances 1, 16, 1e-8
USUAL_RULE = TensorVariance(max_threshold=10.0, min_threshold=1e-5)
OWNS = TensorVariance(tensor_regex="hidden", max_threshold=10.0)
LEAST, NONE = TensorVariance(min_threshold=1e-5), TensorVariance()


@dataclass(frozen=True)
class Row(RuleCase):
    """A case, and the rule that judges it."""

    rule: TensorVariance = USUAL_RULE


FIRES = [
    Row("above", {WEIGHT: {0: LARGE}}, fires=(WEIGHT,)),
    Row("below", {WEIGHT: {0: TINY}}, fires=(WEIGHT,)),
    Row("all alike", {WEIGHT: {0: np.ones(8)}}, fires=(WEIGHT,)),
    Row("a name", {OWN: {0: LARGE}}, fires=(OWN,), rule=OWNS),
    Row("one bound alone", {WEIGHT: {0: TINY}}, fires=(WEIGHT,), rule=LEAST),
]
SILENT = [
    Row("within", {WEIGHT: {0: UNIT}}),
    Row("above before, within now", {WEIGHT: {0: LARGE, 10: UNIT}}),
    Row("another name", {WEIGHT: {0: LARGE}, OWN: {0: UNIT}}, rule=OWNS),
    Row("above, where only below is bounded", {WEIGHT: {0: LARGE}}, rule=LEAST),
    Row("no bounds", {WEIGHT: {0: LARGE}}, rule=NONE),
]


@pytest.mark.parametrize("row", [*FIRES, *SILENT], ids=str)
def test_rows(row: Row) -> None:
    assert_case(row.rule, row)


def test_as_many_silent_as_firing_rows() -> None:
    assert len(FIRES) == len(SILENT)
    assert all(row.fires for row in FIRES)
    assert not any(row.fires for row in SILENT)


def test_without_bounds_it_says_what_it_lacks() -> None:
    window = RuleCase("any", {WEIGHT: {0: UNIT}}).window
    assert NONE.lacks(window) == "max_threshold or min_threshold"
    assert not LEAST.lacks(window)


@given(st.floats(0, 1e9), st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_bound_that_is_left_is_named(variance: float, largest: float, smallest: float) -> None:
    found = beyond(variance, largest=largest, smallest=smallest)
    if found is None:
        assert largest == 0 or variance <= largest
        assert variance >= smallest
    else:
        assert found in {(">", largest), ("<", smallest)}
        assert found[1] > 0
