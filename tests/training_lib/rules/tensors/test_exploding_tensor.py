"""exploding-tensor: every kind of number, in every collection."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import every_case
from trackside.contracts.run.recorded_names import SKIPPED_STEP
from trackside.contracts.verdict import Finding, FindingKind
from trackside.rules.tensors.exploding_tensor import ExplodingTensor, first_broken
from trackside.testing.rule_case import RuleCase, Statistics, assert_case

LOSS, WEIGHT, GRADIENT = "MSELoss_output_0", "Net_fc.weight", "gradient/Net_fc.weight"
NAN, INF = math.nan, math.inf


def skipped_at(step: int) -> Statistics:
    return {SKIPPED_STEP: {"mean": {k: float(k == step) for k in range(step + 1)}}}


CASES = [
    # what must be found
    RuleCase("a loss that is NaN", {LOSS: {0: NAN}}, fires=(LOSS,)),
    RuleCase("a loss that is infinite", {LOSS: {0: INF}}, fires=(LOSS,)),
    RuleCase("minus infinity", {GRADIENT: {0: [1.0, -INF]}}, fires=(GRADIENT,)),
    RuleCase("one NaN among many weights", {WEIGHT: {0: np.append(np.ones(999), NAN)}}, fires=(WEIGHT,)),
    RuleCase("float16 that overflowed", {GRADIENT: {0: np.array([6e4, np.inf], np.float16)}}, fires=(GRADIENT,)),
    RuleCase(
        "all at once: losses, then weights, then gradients",
        {GRADIENT: {0: NAN}, LOSS: {0: NAN}, WEIGHT: {0: [NAN]}},
        fires=(LOSS, WEIGHT, GRADIENT),
    ),
    RuleCase(
        "what broke first leads",
        {LOSS: {0: 1.0, 10: 5.0, 20: NAN}, GRADIENT: {0: [1.0], 10: [INF], 20: [NAN]}},
        fires=(GRADIENT, LOSS),
    ),
    RuleCase("in one worker only", {LOSS: {0: {"worker_0": 1.0, "worker_1": NAN}}}, fires=(LOSS,)),
    RuleCase("in both workers", {LOSS: {0: {"worker_0": NAN, "worker_1": INF}}}, fires=(LOSS, LOSS)),
    RuleCase("only the mean was saved", {f"smdebug/reductions/mean/{WEIGHT}": {0: NAN}}, fires=(WEIGHT,)),
    RuleCase("while evaluating", {LOSS: {0: NAN}}, fires=(LOSS,), mode="EVAL"),
    # what must stay silent
    RuleCase("nothing was saved", {}),
    RuleCase("one finite step", {LOSS: {0: 1.0}}),
    RuleCase("zeros", {LOSS: {0: 0.0}, WEIGHT: {0: np.zeros(8)}}),
    RuleCase("the largest and smallest of float32", {WEIGHT: {0: np.array([3.4e38, -3.4e38, 1e-45], np.float32)}}),
    RuleCase("the largest of float64", {WEIGHT: {0: np.array([1.79e308, 1.79e308])}}),
    RuleCase("whole numbers", {WEIGHT: {0: np.array([2**62, -(2**62)])}}),
    RuleCase("an empty tensor", {WEIGHT: {0: np.zeros((0, 4))}}),
    RuleCase("an activation that is masked with infinity", {"softmax_input_0": {0: [-INF, 1.0]}, LOSS: {0: 1.0}}),
    RuleCase("a bias: not among the default collections", {"Net_fc.bias": {0: [NAN]}}),
    RuleCase("broken once, sound at this step", {LOSS: {0: 1.0, 10: NAN, 20: 1.0}}),
    RuleCase("broken at an earlier step, not saved at this one", {GRADIENT: {0: [NAN]}, LOSS: {0: 1.0, 10: 1.0}}),
    RuleCase("breaks at a later step", {LOSS: {0: 1.0, 10: NAN}}, step=0),
    RuleCase("gradients of a skipped step (issue 41)", {GRADIENT: {0: [INF], 1: [NAN]}}, recorded=skipped_at(1)),
    RuleCase(
        "gradients of steps that another worker skipped",
        {GRADIENT: {0: [1.0], 1: {"worker_0": [NAN], "worker_1": [NAN]}}},
        recorded=skipped_at(1),
        fires=(GRADIENT,),
    ),
    RuleCase("a loss that is sound, at a skipped step", {LOSS: {0: 1.0, 1: 2.0}}, recorded=skipped_at(1)),
    RuleCase("a loss of a skipped step", {LOSS: {0: 1.0, 1: NAN}}, recorded=skipped_at(1), fires=(LOSS,)),
    RuleCase(
        "gradients of all workers, all of which skipped", {GRADIENT: {0: [1.0], 7: [INF]}}, recorded=skipped_at(7)
    ),
    RuleCase(
        "gradients of the step after", {GRADIENT: {1: [NAN], 2: [NAN]}}, recorded=skipped_at(1), fires=(GRADIENT,)
    ),
    RuleCase("two workers, both finite", {LOSS: {0: {"worker_0": 1.0, "worker_1": -1.0}}}),
]

test_cases = every_case(ExplodingTensor(), CASES)


@pytest.mark.parametrize(
    ("value", "fires"),
    [
        pytest.param([NAN, INF], True, id="NaN beside infinity"),
        pytest.param([INF, -INF], False, id="infinities of both signs"),
        pytest.param([1.0], False, id="finite"),
        pytest.param([NAN], True, id="NaN alone"),
    ],
)
def test_only_nan(value: list[float], fires: bool) -> None:
    case = RuleCase("only_nan", {WEIGHT: {0: value}}, fires=(WEIGHT,) * fires)
    assert_case(ExplodingTensor(only_nan=True), case)


@pytest.mark.parametrize(
    ("names", "fires"),
    [
        pytest.param("losses", (LOSS,), id="one"),
        pytest.param("gradients, losses", (GRADIENT, LOSS), id="two, in this order"),
        pytest.param("gradients losses", (GRADIENT, LOSS), id="two, with a space as on the command line"),
        pytest.param("gradients,gradients", (GRADIENT,), id="the same twice"),
        pytest.param("mine", ("Net_hidden_output_0",), id="one of the user's own"),
        pytest.param("biases", (), id="one without tensors"),
        pytest.param("no_such_collection", (), id="one that nobody knows"),
    ],
)
def test_collection_names(names: str, fires: tuple[str, ...]) -> None:
    tensors = {name: {0: [NAN]} for name in (LOSS, WEIGHT, GRADIENT, "Net_hidden_output_0")}
    case = RuleCase(names, tensors, fires=fires, collections={"mine": ("hidden",)})
    assert_case(ExplodingTensor(collection_names=names), case)


def test_the_finding_counts_and_names_the_first_broken_step() -> None:
    case = RuleCase(
        "from step 20", {WEIGHT: {0: [1, 1], 10: [NAN, 1], 20: [1, 1], 30: [INF, 1], 40: [INF, NAN]}}, (WEIGHT,)
    )
    (finding,) = assert_case(ExplodingTensor(), case)
    assert finding == Finding(
        subject=WEIGHT,
        step=40,
        since_step=30,
        measure="non-finite values",
        kind=FindingKind.NOT_FINITE,
        observed=2.0,
        relation=">",
        threshold=0.0,
        statistics={"nan_count": 1.0},
        series=((0, 0.0), (10, 1.0), (20, 0.0), (30, 1.0), (40, 2.0)),
    )


@given(st.lists(st.sampled_from([0.0, 1.0, 7.0]), min_size=1, max_size=30))
def test_first_broken_agrees_with_a_loop(counts: list[float]) -> None:
    steps = [10 * index for index in range(len(counts))]
    expected = None
    for step, count in zip(reversed(steps), reversed(counts), strict=True):
        if count == 0:
            break
        expected = step
    assert first_broken(np.array(steps), np.array(counts)) == expected


@given(
    st.lists(st.floats(width=32) | st.sampled_from([NAN, INF, -INF]), min_size=1, max_size=20),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_values_does_not_matter_and_the_count_is_exact(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis types its randoms as object
    counts = []
    for row in (values, shuffled):
        window = RuleCase("one step", {WEIGHT: {0: np.array(row, np.float32)}}).window
        counts.append([finding.observed for finding in ExplodingTensor().check(window)])
    broken = sum(not math.isfinite(value) for value in values)
    assert counts[0] == counts[1] == ([broken] if broken else [])
