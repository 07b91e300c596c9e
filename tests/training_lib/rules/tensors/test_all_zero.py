"""all-zero: shares of zeros in what the user chose."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import Row, every_case
from trackside.rules.tensors.all_zero import AllZero
from trackside.testing.rule_case import RuleCase, assert_case

LOSS, WEIGHT, GRADIENT, OWN = "MSELoss_output_0", "Net_fc.weight", "gradient/Net_fc.weight", "Net_mask"
ZEROS = np.zeros(10)
USUAL_RULE, WEIGHTS, OWNS = AllZero(), AllZero(collection_names="weights"), AllZero(tensor_regex="mask")
HALF = AllZero(threshold=50.0)


def with_zeros(count: int, *, of: int = 10) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A vector that holds so many zeros."""
    return np.arange(of) // count if count else np.ones(of, np.int64)


FIRES = [
    Row("a gradient of zeros", {GRADIENT: {0: ZEROS}}, fires=(GRADIENT,)),
    Row("zeros with a minus", {GRADIENT: {0: -ZEROS}}, fires=(GRADIENT,)),
    Row("a collection", {WEIGHT: {0: ZEROS}, GRADIENT: {0: ZEROS}}, fires=(WEIGHT,), rule=WEIGHTS),
    Row("a name", {OWN: {0: ZEROS}}, fires=(OWN,), rule=OWNS),
    Row("half of it, which is the threshold", {GRADIENT: {0: with_zeros(5)}}, fires=(GRADIENT,), rule=HALF),
    Row("more than half", {GRADIENT: {0: with_zeros(6)}}, fires=(GRADIENT,), rule=HALF),
    Row("a scalar", {OWN: {0: 0.0}}, fires=(OWN,), rule=OWNS),
]
SILENT = [
    Row("one value that is not", {GRADIENT: {0: with_zeros(9)}}),
    Row("tiny values", {GRADIENT: {0: np.full(4, 1e-300)}}),
    Row("weights, where gradients are looked at", {WEIGHT: {0: ZEROS}, GRADIENT: {0: ZEROS + 1}}),
    Row("another name", {GRADIENT: {0: ZEROS}, OWN: {0: ZEROS + 1}}, rule=OWNS),
    Row("less than half", {GRADIENT: {0: with_zeros(4)}}, rule=HALF),
    Row("zero before, not saved now", {GRADIENT: {0: ZEROS}, LOSS: {0: 1.0, 10: 1.0}}),
    Row("NaN is not zero", {OWN: {0: [np.nan]}}, rule=OWNS),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


@given(st.integers(1, 200), st.data())
def test_the_threshold_itself_fires_whatever_the_rounding(size: int, data: st.DataObject) -> None:
    zeros = data.draw(st.integers(1, size))
    case = RuleCase("so many", {GRADIENT: {0: np.where(np.arange(size) < zeros, 0.0, 1.0)}}, fires=(GRADIENT,))
    assert_case(AllZero(threshold=round(100 * zeros / size, 9)), case)
