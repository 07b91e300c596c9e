"""unchanged-tensor: element by element, over the newest saved steps."""

from __future__ import annotations

import numpy as np

from tests.training_lib.rules.tables import Row, every_case
from trackside.rules.tensors.unchanged_tensor import UnchangedTensor

WEIGHT, LOSS, OWN = "Net_fc.weight", "MSELoss_output_0", "Net_batch"
MEAN = f"smdebug/reductions/mean/{LOSS}"
ONES = np.ones(4)
USUAL_RULE, LOSSES = UnchangedTensor(), UnchangedTensor(collection_names="losses")
OWNS = UnchangedTensor(tensor_regex="batch")
LOOSE, NANS = UnchangedTensor(rtol=0.1), UnchangedTensor(equal_nan=True)
STEPS = np.arange(3)
TWO = UnchangedTensor(num_steps=2)
SWAPPED = np.array([[1.0, 2.0], [2.0, 1.0]])


FIRES = [
    Row("three steps alike", {WEIGHT: {0: ONES, 10: ONES, 20: ONES}}, fires=(WEIGHT,)),
    Row("not one after the other", {WEIGHT: {0: ONES, 3: ONES, 400: ONES}}, fires=(WEIGHT,)),
    Row("it changed before", {WEIGHT: {0: 0 * ONES, 1: ONES, 2: ONES, 3: ONES}}, fires=(WEIGHT,)),
    Row("within the tolerance", {WEIGHT: {0: ONES, 1: 1.05 * ONES, 2: ONES}}, fires=(WEIGHT,), rule=LOOSE),
    Row("NaN where that equals NaN", {WEIGHT: dict.fromkeys(range(3), np.nan)}, fires=(WEIGHT,), rule=NANS),
    Row("a loss", {LOSS: dict.fromkeys(range(3), 1.0)}, fires=(LOSS,), rule=LOSSES),
    Row("whole numbers", {OWN: {0: STEPS, 1: STEPS, 2: STEPS}}, fires=(OWN,), rule=OWNS),
    Row("losses known by their mean", {MEAN: dict.fromkeys(range(3), 1.0)}, fires=(LOSS,), rule=LOSSES),
    Row("two steps, where two are asked for", {WEIGHT: {0: ONES, 1: ONES}}, fires=(WEIGHT,), rule=TWO),
]
SILENT = [
    Row("two steps alike", {WEIGHT: {0: ONES, 10: ONES}}),
    Row("it has changed at the newest", {WEIGHT: {0: ONES, 10: ONES, 20: 2 * ONES}}),
    Row("it has changed between", {WEIGHT: {0: ONES, 10: 2 * ONES, 20: ONES}}),
    Row("beyond the tolerance", {WEIGHT: {0: ONES, 1: 1.2 * ONES, 2: ONES}}, rule=LOOSE),
    Row("NaN equals nothing", {WEIGHT: dict.fromkeys(range(3), np.nan)}),
    Row("the same mean, other values", {WEIGHT: {0: SWAPPED[0], 1: SWAPPED[1], 2: SWAPPED[0]}}),
    Row("another shape", {OWN: {0: np.ones(2), 1: np.ones(2), 2: np.ones(3)}}, rule=OWNS),
    Row("weights known by their mean", {f"smdebug/reductions/mean/{WEIGHT}": dict.fromkeys(range(3), 1.0)}),
    Row("not saved now", {WEIGHT: dict.fromkeys(range(3), ONES), LOSS: {0: 1.0, 5: 1.0}}),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])
