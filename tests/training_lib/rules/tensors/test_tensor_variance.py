"""tensor-variance: bounds of the user's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import Row, every_case
from trackside.rules.tensors.tensor_variance import TensorVariance, beyond
from trackside.testing.rule_case import RuleCase

WEIGHT, OWN = "Net_fc.weight", "Net_hidden"
UNIT, LARGE, TINY = np.array([-1.0, 1.0]), np.array([-4.0, 4.0]), np.array([-1e-4, 1e-4])  # variances 1, 16, 1e-8
USUAL_RULE = TensorVariance(max_threshold=10.0, min_threshold=1e-5)
OWNS = TensorVariance(tensor_regex="hidden", max_threshold=10.0)
LEAST, NONE = TensorVariance(min_threshold=1e-5), TensorVariance()


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

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


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
