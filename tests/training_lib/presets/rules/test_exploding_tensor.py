"""exploding-tensor, as documented: any tensor that was saved, any value that is not finite."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest

from trackside.presets.rules.exploding_tensor import DocumentedExplodingTensor
from trackside.testing.rule_case import RuleCase, assert_case

LOSS, WEIGHT, GRADIENT, OWN = "MSELoss_output_0", "Net_fc.weight", "gradient/Net_fc.weight", "Net_mask"
NAN, INF = math.nan, math.inf


USUAL_RULE = DocumentedExplodingTensor()


@dataclass(frozen=True)
class Row(RuleCase):
    """A case, and the rule that judges it."""

    rule: DocumentedExplodingTensor = USUAL_RULE


ONLY_NAN = DocumentedExplodingTensor(only_nan=True)
WEIGHTS = DocumentedExplodingTensor(collection_names="weights")
MASKS = DocumentedExplodingTensor(tensor_regex="mask")
BOTH = DocumentedExplodingTensor(collection_names="weights", tensor_regex="mask")
FIRES = [
    Row("a loss that is NaN", {LOSS: {0: NAN}}, fires=(LOSS,)),
    Row("an infinite gradient", {GRADIENT: {0: [1.0, -INF]}}, fires=(GRADIENT,)),
    Row("a tensor of no collection: all that was saved", {OWN: {0: [-INF, 0.0]}}, fires=(OWN,)),
    Row("NaN alone is asked for", {LOSS: {0: NAN}}, fires=(LOSS,), rule=ONLY_NAN),
    Row("a collection", {WEIGHT: {0: [NAN]}, LOSS: {0: NAN}}, fires=(WEIGHT,), rule=WEIGHTS),
    Row("collections and regexes: both", {WEIGHT: {0: [NAN]}, OWN: {0: [INF]}}, fires=(WEIGHT, OWN), rule=BOTH),
]
SILENT = [
    Row("finite", {LOSS: {0: 1.0}, GRADIENT: {0: [1e38]}, OWN: {0: [0.0]}}),
    Row("broken before, sound now", {LOSS: {0: NAN, 10: 1.0}}),
    Row("broken before, not saved now", {GRADIENT: {0: [NAN]}, LOSS: {0: 1.0, 10: 1.0}}),
    Row("infinity where NaN alone is asked for", {LOSS: {0: INF}}, rule=ONLY_NAN),
    Row("another collection than the chosen", {LOSS: {0: NAN}, WEIGHT: {0: [1.0]}}, rule=WEIGHTS),
    Row("another name than the chosen", {LOSS: {0: NAN}}, rule=MASKS),
]


@pytest.mark.parametrize("row", [*FIRES, *SILENT], ids=str)
def test_rows(row: Row) -> None:
    assert_case(row.rule, replace(row, fires=tuple(sorted(row.fires))))


def test_as_many_silent_as_firing_rows() -> None:
    assert len(FIRES) == len(SILENT)
    assert all(row.fires for row in FIRES)
    assert not any(row.fires for row in SILENT)
