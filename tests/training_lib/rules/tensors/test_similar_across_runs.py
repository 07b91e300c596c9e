"""similar-across-runs: the same tensors of two runs at the same step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.training_lib.rules.tables import Row, every_case
from trackside.rules.tensors.similar_across_runs import SimilarAcrossRuns, difference
from trackside.testing.rule_case import Tensors

LOSS, WEIGHT, OWN = "MSELoss_output_0", "Net_fc.weight", "Net_hidden"
ONES = np.ones(4)
USUAL_RULE = SimilarAcrossRuns(other_trials="other")
OWNS = SimilarAcrossRuns(other_trials="other", tensor_regex="hidden")
LOOSE = SimilarAcrossRuns(other_trials="other", rtol=0.5)


def other(tensors: Tensors) -> dict[str, Tensors]:
    """The only other run."""
    return {"other": tensors}


NAN = [np.nan, 1.0]
FIRES = [
    Row("another loss", {LOSS: {0: 1.0}}, fires=(LOSS,), others=other({LOSS: {0: 1.1}})),
    Row("one element of a weight", {WEIGHT: {0: ONES}}, fires=(WEIGHT,), others=other({WEIGHT: {0: [1, 1, 1, 1.01]}})),
    Row("at a later step", {LOSS: {0: 1.0, 5: 0.5}}, fires=(LOSS,), others=other({LOSS: {0: 1.0, 5: 0.6}})),
    Row("a name", {OWN: {0: ONES}}, fires=(OWN,), others=other({OWN: {0: 2 * ONES}}), rule=OWNS),
    Row("another shape", {WEIGHT: {0: ONES}}, fires=(WEIGHT,), others=other({WEIGHT: {0: np.ones(3)}})),
    Row("NaN in one", {WEIGHT: {0: NAN}}, fires=(WEIGHT,), others=other({WEIGHT: {0: [1.0, 1.0]}})),
    Row(
        "one of two runs",
        {LOSS: {0: 1.0}},
        fires=(LOSS,),
        others={"same": {LOSS: {0: 1.0}}, "other": {LOSS: {0: 2.0}}},
    ),
    Row("beyond the tolerance", {LOSS: {0: 1.0}}, fires=(LOSS,), others=other({LOSS: {0: 3.0}}), rule=LOOSE),
]
SILENT = [
    Row("the same loss", {LOSS: {0: 1.0}}, others=other({LOSS: {0: 1.0}})),
    Row("the same but for rounding", {WEIGHT: {0: ONES}}, others=other({WEIGHT: {0: ONES + 1e-7}})),
    Row("other steps", {LOSS: {0: 1.0}}, others=other({LOSS: {5: 2.0}})),
    Row("another name", {WEIGHT: {0: ONES}}, others=other({WEIGHT: {0: 2 * ONES}}), rule=OWNS),
    Row("a tensor that the other has not", {WEIGHT: {0: ONES}}, others=other({LOSS: {0: 1.0}})),
    Row("NaN in both", {WEIGHT: {0: NAN}}, others=other({WEIGHT: {0: NAN}})),
    Row("another run that cannot be read", {LOSS: {0: 1.0}}),
    Row("within the tolerance", {LOSS: {0: 1.0}}, others=other({LOSS: {0: 1.4}}), rule=LOOSE),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


@pytest.mark.parametrize(
    ("rule", "row", "lacks"),
    [
        pytest.param(SimilarAcrossRuns(), SILENT[0], "another run", id="none was named"),
        pytest.param(USUAL_RULE, SILENT[6], "can be read at other", id="it cannot be read"),
        pytest.param(USUAL_RULE, SILENT[2], "both runs", id="no step in common"),
        pytest.param(USUAL_RULE, SILENT[0], "", id="nothing"),
    ],
)
def test_what_is_missing(rule: SimilarAcrossRuns, row: Row, lacks: str) -> None:
    found = rule.lacks(row.window)
    assert lacks in found
    assert bool(found) is bool(lacks)


VALUES = arrays(np.float64, 5, elements=st.floats(-1e6, 1e6))


@given(VALUES, VALUES)
def test_it_agrees_with_numpy(
    ours: np.ndarray[tuple[int], np.dtype[np.float64]], theirs: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> None:
    found = difference(ours, theirs, rtol=1e-5, atol=1e-8)
    if abs(found - 1) > 1e-9:  # at the bound itself rounding decides
        assert (found <= 1) is bool(np.allclose(ours, theirs, rtol=1e-5, atol=1e-8))
    assert difference(ours, ours, rtol=0, atol=0) == 0


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        pytest.param(["a"], ["a"], 0.0, id="the same text"),
        pytest.param(["a"], ["b"], np.inf, id="another text"),
        pytest.param([np.inf], [np.inf], 0.0, id="infinity twice"),
        pytest.param([np.inf], [-np.inf], np.inf, id="infinities of both signs"),
        pytest.param([], [], 0.0, id="nothing"),
    ],
)
def test_odd_values(ours: list[object], theirs: list[object], found: float) -> None:
    assert difference(np.array(ours), np.array(theirs), rtol=1e-5, atol=1e-8) == found
