"""unnormalized-inputs: what the model is fed is too large, constant, or no number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ModuleFacts
from trackside.contracts.verdict import Severity
from trackside.rules.data.unnormalized_inputs import UnnormalizedInputs
from trackside.situation.inputs import UNLIKE, unlikeness, wrong_with
from trackside.testing.fake_trial import WALL_TIME, fake_trial
from trackside.testing.rule_case import RuleCase, assert_case

X, Y, LOSS = "Net_input_0", "Net_input_1", "CrossEntropyLoss_output_0"
RANDOM = np.random.default_rng(0)
GOOD = RANDOM.normal(size=(32, 8)).astype(np.float32)
IMAGES = RANDOM.uniform(0, 1, size=(16, 3, 8, 8)).astype(np.float32)
UNEVEN = GOOD * np.array([1, 1, 1, 1, 1, 1, 1, 1e5], np.float32)
ONE_NAN = np.where(np.arange(32)[:, None] == 7, np.float32(np.nan), GOOD)
CAUSAL = np.triu(np.full((8, 8), -np.inf, np.float32), 1)
PADDED = np.where(np.arange(8) < 5, 0, np.finfo(np.float32).min).astype(np.float32) * np.ones((16, 1, 1, 1), np.float32)
LOG_OF_COUNTS = np.where(IMAGES > 0.5, np.float32(-np.inf), np.log(IMAGES))
STUCK = steady(2.3, 101)


def case(
    name: str,
    batch: Any,
    *,
    fires: bool = False,
    loss: Mapping[int, float] = STUCK,
    roles: tuple[str, ...] = ("linear",),
) -> RuleCase:
    modules = tuple(ModuleFacts(f"m{number}", role, role) for number, role in enumerate(roles))
    return RuleCase(
        name,
        {X: {0: GOOD, 100: batch}},
        recorded={LOSS: {"mean": loss}},
        collections={"model_inputs": (f"^{X}$",)},
        fires=(X,) if fires else (),
        facts=ModelFacts(modules=modules),
    )


def entries(name: str, *batches: Any, fires: tuple[int, ...] = ()) -> RuleCase:
    """A model with several inputs."""
    names = [f"Net_input_{number}" for number in range(len(batches))]
    return replace(
        case(name, GOOD),
        tensors={name: {100: batch} for name, batch in zip(names, batches, strict=True)},
        collections={"model_inputs": ("^Net_input_[0-9]$",)},
        fires=tuple([names[number] for number in fires]),
    )


def texts(name: str, *batches: Any, fires: bool = False) -> RuleCase:
    """A model whose input is saved at some steps."""
    tensors = {X: {50 * number: batch for number, batch in enumerate(batches)}}
    return replace(case(name, GOOD, fires=fires), tensors=tensors, step=50 * len(batches) - 50)


ONE_TEXT = np.tile(np.arange(8), (32, 1))
SMALL = RANDOM.normal(size=(32, 4)).astype(np.float32)
CASES = [
    case("pixels of 0 to 255", IMAGES * 255, fires=True),
    case("far from zero", GOOD + 1000, fires=True),
    case("one feature is huge", UNEVEN, fires=True),
    case("the same for each sample", np.ones((32, 8), np.float32) * GOOD[:1], fires=True),
    case("a NaN", ONE_NAN, fires=True),
    case("infinity", np.where(ONE_NAN == GOOD, GOOD, np.float32(np.inf)), fires=True),
    case("a NaN, although it learns", ONE_NAN, loss=falling(2.3, 0.1, 101), fires=True),
    texts("tokens, the same for each sample and at each step", ONE_TEXT, ONE_TEXT, fires=True),
    case("minus infinity among other numbers", LOG_OF_COUNTS, fires=True),
    entries("constant inputs beside a mask", np.ones((32, 8), np.float32), CAUSAL, fires=(0,)),
    entries("two inputs, one of them large", GOOD, GOOD * 1000, fires=(1,)),
    entries("a large input beside tokens", RANDOM.integers(0, 50, size=(32, 8)), GOOD * 1000, fires=(1,)),
    case("pixels divided by 255 twice", IMAGES / 255, fires=True),
    case("standardised", GOOD),
    entries("a causal mask", GOOD, CAUSAL),
    entries("a mask of padding", GOOD, PADDED),
    replace(
        case("positions beside tokens", np.tile(np.arange(8), (32, 1))),
        tensors={X: {100: np.tile(np.arange(8), (32, 1))}, Y: {100: RANDOM.integers(0, 50, size=(32, 8))}},
        collections={"model_inputs": ("^Net_input_[01]$",)},
    ),
    replace(
        case("a lost batch beside the edges of a graph", GOOD),
        tensors={X: {50: GOOD, 100: GOOD * 0}, Y: {100: RANDOM.integers(0, 50, size=(32, 8))}},
        collections={"model_inputs": ("^Net_input_[01]$",)},
        fires=(X,),
    ),
    replace(
        case("a state that begins with zeros", GOOD),
        tensors={X: {50: GOOD, 100: GOOD}, Y: {50: GOOD, 100: GOOD * 0}},
        collections={"model_inputs": ("^Net_input_[01]$",)},
    ),
    replace(
        case("positions first, at every step", GOOD),
        tensors={X: {50: GOOD * 0 + 1, 100: GOOD * 0 + 1}, Y: {50: GOOD, 100: GOOD}},
        collections={"model_inputs": ("^Net_input_[01]$",)},
    ),
    case("pixels of 0 to 1", IMAGES),
    case("returns of a day", GOOD * np.float32(0.01)),
    case("a few words of many", np.eye(32, 50_000, dtype=np.float32)),
    case("small, but it learns", IMAGES / 255, loss=falling(2.3, 0.1, 101)),
    case("small, but normalised by the model", IMAGES / 255, roles=("normalization", "linear")),
    case("large, but normalised by the model", GOOD * 1000, roles=("normalization", "linear")),
    case("large, but it learns", GOOD * 1000, loss=falling(2.3, 0.1, 101)),
    case("tokens", RANDOM.integers(0, 50_000, size=(32, 8))),
    texts("generations of one prompt, then of another", ONE_TEXT, ONE_TEXT + 1),
    texts("generations of a prompt, then of a longer one", ONE_TEXT, np.tile(np.arange(9), (32, 1))),
    texts("generations of the first prompt", ONE_TEXT),
    case("a few samples", np.ones((4, 8), np.float32)),
    case("no features", np.ones((32, 0), np.float32)),
]

test_cases = every_case(UnnormalizedInputs(), CASES)


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        pytest.param(CASES[0], Cause.UNNORMALIZED_INPUTS, id="large"),
        pytest.param(CASES[2], Cause.UNNORMALIZED_INPUTS, id="uneven"),
        pytest.param(CASES[3], Cause.CONSTANT_INPUTS, id="constant"),
        pytest.param(CASES[4], Cause.NON_FINITE_DATA, id="nan"),
    ],
)
def test_what_it_suspects(case: RuleCase, cause: Cause) -> None:
    findings = assert_case(UnnormalizedInputs(), case)
    assert UnnormalizedInputs().suspicions(findings, case.window)[0].cause is cause


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        pytest.param(CASES[0], Severity.WARNING, id="the-only-input"),
        pytest.param(entries("", GOOD, GOOD * 1000, fires=(1,)), Severity.WARNING, id="one-of-two"),
        pytest.param(entries("", GOOD, SMALL, GOOD * 30, fires=(2,)), Severity.INFO, id="an-entry-of-many"),
        pytest.param(entries("", GOOD, SMALL, UNEVEN, fires=(2,)), Severity.INFO, id="uneven-entry"),
        pytest.param(entries("", GOOD, SMALL, ONE_NAN, fires=(2,)), Severity.WARNING, id="nan-in-one-of-many"),
        pytest.param(entries("", GOOD, GOOD * 30, GOOD * 30, fires=(1, 2)), Severity.WARNING, id="most-of-them"),
    ],
)
def test_how_sure_it_is(case: RuleCase, severity: Severity) -> None:
    assert UnnormalizedInputs().severity_of(assert_case(UnnormalizedInputs(), case)) is severity


def test_only_what_was_saved_at_this_step_is_judged() -> None:
    old = RuleCase(
        "long ago", {X: {0: GOOD * 1e6}, LOSS: {0: 2.3, 100: 2.3}}, collections={"model_inputs": (f"^{X}$",)}
    )
    assert_case(UnnormalizedInputs(), old)


@given(
    shape=st.tuples(st.integers(8, 20), st.integers(1, 6)),
    scale=st.floats(3e-2, 3.0),
    shift=st.floats(-3.0, 3.0),
    seed=st.integers(0, 99),
)
def test_what_is_scaled_reasonably_is_never_named(
    shape: tuple[int, int], scale: float, shift: float, seed: int
) -> None:
    batch = np.random.default_rng(seed).normal(size=shape) * scale + shift
    assert wrong_with(batch, size=20, ratio=1000) is None


@given(seed=st.integers(0, 99), scale=st.floats(1e-30, 1e30))
def test_the_same_rows_are_named_at_every_scale(seed: int, scale: float) -> None:
    row = np.random.default_rng(seed).normal(size=(1, 8)) * scale
    found = wrong_with(np.repeat(row, 16, axis=0), size=1e40, ratio=1e40)
    assert found is not None
    assert found.observed < found.threshold


NOISE = 3 * np.random.default_rng(1).normal(size=(2, 32, 8)).astype(np.float32)
TOKENS = RANDOM.integers(0, 9, size=(32, 8))


@pytest.mark.parametrize(
    ("trained", "evaluated", "fires"),
    [
        pytest.param([GOOD + NOISE[0], GOOD + NOISE[1]], GOOD, True, id="noise-in-training"),
        pytest.param([GOOD, -GOOD], GOOD * 10, True, id="evaluation-not-scaled"),
        pytest.param([IMAGES, IMAGES], IMAGES / 255, True, id="evaluation-scaled-twice"),
        pytest.param([GOOD, -GOOD], GOOD, False, id="alike"),
        pytest.param([GOOD * 0.7, GOOD * 1.2], GOOD, False, id="augmented"),
        pytest.param([GOOD + NOISE[0] / 3, GOOD + NOISE[1] / 3], GOOD, False, id="noise-as-large-as-the-data"),
        pytest.param([GOOD, GOOD * 4], GOOD * 6, False, id="training-spreads-as-much"),
        pytest.param([GOOD + NOISE[0]], GOOD, False, id="one-batch-of-training"),
        pytest.param([GOOD + NOISE[0], GOOD + NOISE[1]], GOOD[:4], False, id="too-few-samples-to-evaluate"),
        pytest.param([TOKENS, TOKENS], TOKENS * 9, False, id="tokens"),
        pytest.param([GOOD + NOISE[0], GOOD + NOISE[1]], GOOD * 0, False, id="nothing-to-evaluate"),
    ],
)
@pytest.mark.parametrize("evaluated_at", [pytest.param(25, id="early"), pytest.param(500, id="after-the-last-batch")])
def test_inputs_of_training_and_evaluation_are_compared(
    trained: list[Any], evaluated: Any, fires: bool, evaluated_at: int
) -> None:
    batches = {50 * number: batch for number, batch in enumerate(trained)}
    trial = fake_trial(
        {X: {**batches, evaluated_at: evaluated}},
        modes={evaluated_at: "EVAL"},
        collections={"model_inputs": (f"^{X}$",)},
    )
    found = [
        finding
        for step in sorted({*batches, evaluated_at})
        for finding in UnnormalizedInputs().check(trial.window(step, now=WALL_TIME))
        if finding.measure == UNLIKE
    ]
    assert bool(found) is fires
    if fires:
        assert "unlike inputs: the deviation of Net_input_0 is" in UnnormalizedInputs().sentence(found)
        (suspicion,) = UnnormalizedInputs().suspicions(found, trial.window(max(batches), now=WALL_TIME))
        assert suspicion.cause is Cause.UNNORMALIZED_INPUTS


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=5), st.floats(0.01, 100), st.floats(0.1, 10))
def test_likeness_knows_no_unit(trained: list[float], evaluated: float, unit: float) -> None:
    columns = np.array(trained)
    ratio = unlikeness(columns, evaluated)
    assert unlikeness(columns * unit, evaluated * unit) == pytest.approx(ratio)
    assert ratio == 0 or ratio >= 1
    assert (ratio == 0) == (columns.min() <= evaluated <= columns.max())
