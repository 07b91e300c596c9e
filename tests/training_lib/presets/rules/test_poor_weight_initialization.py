"""poor-weight-initialization, as documented: variances, gradients and losses of the first steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import Row, every_case
from trackside.presets.rules.poor_weight_initialization import (
    DocumentedPoorWeightInitialization,
    gain_of,
    spread,
    variance_ratio,
)
from trackside.testing.rule_case import RuleCase, assert_case

FIRST, LAST, MXNET = "Net_a_input_0", "Net_b_input_0", "relu0_relu_input_0"
GRADIENT, LOSS = "gradient/Net_a.weight", "MSELoss_output_0"
COLLECTIONS = {"activation_inputs": ("^Net_.*_input",)}
SMALL, USUAL, LARGE = [-1.0, 1.0], [-2.0, 2.0], [-4.0, 4.0]  # variances 1, 4 and 16
SPREAD, FLAT = np.linspace(-1, 1, 50), np.linspace(-1e-4, 1e-4, 50)


USUAL_RULE = DocumentedPoorWeightInitialization()
NAMED = DocumentedPoorWeightInitialization(activation_inputs_regex="Net_b,relu0")
SHORT = DocumentedPoorWeightInitialization(steps=2)
STAYS, FALLS = dict.fromkeys(range(6), 1.0), {step: 1.0 - step / 10 for step in range(6)}
LATE = {FIRST: dict.fromkeys(range(3), SMALL), LAST: dict.fromkeys(range(3), LARGE)}
FIRES = [
    Row("uneven variances", {FIRST: {0: SMALL}, LAST: {0: LARGE}}, fires=(LAST,), collections=COLLECTIONS),
    Row("under MXNet's names too", {MXNET: {0: SMALL}, LAST: {0: LARGE}}, fires=(LAST,), rule=NAMED),
    Row("flat gradients", {GRADIENT: {0: FLAT}}, fires=(GRADIENT,)),
    Row("a loss that stays", {LOSS: STAYS}, fires=(LOSS,)),
    Row("all at once", {GRADIENT: {5: FLAT}, LOSS: STAYS}, fires=(GRADIENT, LOSS)),
    Row("within the first steps", LATE, fires=(LAST,), collections=COLLECTIONS, step=1, rule=SHORT),
]
SILENT = [
    Row("alike", {FIRST: {0: SMALL}, LAST: {0: USUAL}}, collections=COLLECTIONS),
    Row("uneven, but of another name", {FIRST: {0: SMALL}, LAST: {0: LARGE}}, collections=COLLECTIONS, rule=NAMED),
    Row("gradients that differ", {GRADIENT: {0: SPREAD}}),
    Row("a loss that falls", {LOSS: FALLS}),
    Row("a loss that has not stayed for long", {LOSS: dict.fromkeys(range(5), 1.0)}),
    Row("after the first steps", LATE, collections=COLLECTIONS, step=2, rule=SHORT),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


def test_evaluations_are_no_first_steps() -> None:
    assert_case(DocumentedPoorWeightInitialization(), RuleCase("EVAL", {LOSS: STAYS}, mode="EVAL"))


def test_after_the_first_steps_it_lacks_them() -> None:
    rule = DocumentedPoorWeightInitialization(steps=2)
    assert rule.lacks(RuleCase("late", {LOSS: STAYS}).window)
    assert not rule.lacks(RuleCase("early", {LOSS: STAYS}, step=1).window)


@pytest.mark.parametrize(
    ("variances", "ratio"),
    [
        pytest.param([1.0, 4.0], 4.0, id="two layers"),
        pytest.param([1.0, 0.0], math.inf, id="one without any"),
        pytest.param([1.0], None, id="one layer"),
        pytest.param([0.0, 0.0], None, id="none has any"),
        pytest.param([math.nan, 1.0, 2.0], 2.0, id="one that cannot be told"),
    ],
)
def test_the_ratio_of_variances(variances: list[float], ratio: float | None) -> None:
    assert variance_ratio(variances) == ratio


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40))
def test_the_spread_is_no_larger_than_the_range(values: list[float]) -> None:
    found = spread(np.array(values))
    assert found is not None
    assert 0 <= found <= (max(values) - min(values)) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("losses", "gain"),
    [
        pytest.param([3.0, 2.0, 1.0], 2.0, id="it fell"),
        pytest.param([1.0, 2.0, 3.0], -1.0, id="it rose"),
        pytest.param([1.0, math.nan, math.inf], -math.inf, id="it broke"),
        pytest.param([1.0, 2.0], None, id="too few"),
        pytest.param([math.nan, 1.0, 1.0], None, id="broken from the start"),
    ],
)
def test_the_gain_over_two_steps(losses: list[float], gain: float | None) -> None:
    assert gain_of(np.array(losses), patience=2) == gain
