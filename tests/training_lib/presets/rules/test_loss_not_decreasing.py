"""loss-not-decreasing, as documented: two steps are compared, and the next pair is so far away."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import Row, every_case
from trackside.presets.rules.loss_not_decreasing import DocumentedLossNotDecreasing, compared
from trackside.testing.fake_trial import WALL_TIME, fake_trial

LOSS, OTHER, METRIC = "MSELoss_output_0", "L1Loss_output_0", "Net_metric"


USUAL_RULE = DocumentedLossNotDecreasing()
NAMED = DocumentedLossNotDecreasing(use_losses_collection=False, tensor_regex="metric")
FIRES = [
    Row("it stays", {LOSS: {0: 1.0, 10: 1.0}}, fires=(LOSS,)),
    Row("it falls by less than a thousandth", {LOSS: {0: 1.0, 10: 0.9995}}, fires=(LOSS,)),
    Row("it rises", {LOSS: {0: 1.0, 10: 1.2}}, fires=(LOSS,)),
    Row("of two, one stays", {LOSS: {0: 1.0, 10: 0.5}, OTHER: {0: 1.0, 10: 1.0}}, fires=(OTHER,)),
    Row("below zero and rising", {LOSS: {0: -2.0, 10: -1.0}}, fires=(LOSS,)),
    Row("a tensor of the user's", {METRIC: {0: 1.0, 10: 1.0}, LOSS: {0: 1.0, 10: 1.0}}, fires=(METRIC,), rule=NAMED),
]
SILENT = [
    Row("it falls", {LOSS: {0: 1.0, 10: 0.9}}),
    Row("one step alone", {LOSS: {0: 1.0}}),
    Row("steps too close to one another", {LOSS: {0: 1.0, 9: 1.0}}),
    Row("falls over the distance, rose since the step before", {LOSS: {0: 1.0, 8: 0.2, 11: 0.5}}),
    Row("below zero and falling", {LOSS: {0: -1.0, 10: -2.0}}),
    Row("a loss, where another tensor was asked for", {LOSS: {0: 1.0, 10: 1.0}}, rule=NAMED),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


def test_the_worked_example_of_the_documentation() -> None:
    steps = np.arange(0, 40, 3)
    judged = {int(steps[k]): pair for k in range(len(steps)) if (pair := compared(steps[: k + 1], num_steps=10))}
    assert {step: int(steps[pair[0]]) for step, pair in judged.items()} == {12: 0, 24: 12, 36: 24}


@given(st.lists(st.integers(0, 500), unique=True, min_size=1).map(sorted), st.integers(1, 50))
def test_what_is_compared_lies_far_enough_apart(steps: list[int], num_steps: int) -> None:
    pair = compared(np.array(steps), num_steps=num_steps)
    if pair is not None:
        assert steps[pair[1]] == steps[-1]
        assert steps[pair[1]] - steps[pair[0]] >= num_steps
        assert all(step > steps[-1] - num_steps for step in steps[pair[0] + 1 :])


@pytest.mark.parametrize(
    ("mode", "fires"),
    [
        pytest.param("", True, id="validation losses first"),
        pytest.param("EVAL", True, id="validation losses"),
        pytest.param("train", False, id="training losses"),
        pytest.param("GLOBAL", False, id="a mode that was never saved"),
    ],
)
def test_the_mode(mode: str, fires: bool) -> None:
    trained, evaluated = {0: 1.0, 10: 0.5, 20: 0.2}, {5: 1.0, 15: 1.0, 25: 1.0}
    trial = fake_trial({LOSS: {**trained, **evaluated}}, modes=dict.fromkeys(evaluated, "EVAL"))
    rule = DocumentedLossNotDecreasing(mode=mode)
    found = [f for step in trial.steps() for f in rule.check(trial.window(step, now=WALL_TIME))]
    assert bool(found) is fires
