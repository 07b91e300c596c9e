"""poor-weight-initialization: the weights start too large, too small, or all alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts, ParameterFacts
from trackside.contracts.observations import HAS_EQUAL_ROWS, STEP_SHARE
from trackside.rules.tensors.poor_weight_initialization import PoorWeightInitialization, scale_of
from trackside.testing.rule_case import RuleCase, assert_case, replay

LOSS = "CrossEntropyLoss_output_0"
NAMES = ("Net_a.weight", "Net_b.weight", "Net_c.weight", "Net_head.weight")
A, B, C, HEAD = NAMES
PARAMETERS = tuple(ParameterFacts(n, n[4:-7], (64, 64), "float32", optimizer="SGD") for n in NAMES)
FACTS = ModelFacts(
    modules=tuple(ModuleFacts(p.module, "Linear", "linear", line=f"{p.module}.py:1") for p in PARAMETERS),
    parameters=PARAMETERS,
    losses=(LossFacts(LOSS, "CrossEntropyLoss", "mean", class_count=10),),
)
USUAL = 8 / math.sqrt(3)  # the norm of a 64 x 64 matrix, uniform within +-1/sqrt(64): a scale of 0.58


def case(
    name: str,
    norms: Mapping[str, float] | None = None,
    *,
    loss: float = 2.3,
    losses: Mapping[int, float] | None = None,
    gradient: Mapping[str, float | Mapping[int, float]] | None = None,
    of: ModelFacts | None = FACTS,
    fires: tuple[str, ...] = (),
    steps: int = 21,
) -> RuleCase:
    recorded: dict[str, Any] = {LOSS: {"mean": losses or steady(loss, steps)}}
    for weight in NAMES:
        norm, of_gradient = (norms or {}).get(weight, USUAL), (gradient or {}).get(weight, 1.0)
        recorded[weight] = {"l2": steady(norm, steps)}
        kept = of_gradient if isinstance(of_gradient, Mapping) else steady(of_gradient, steps)
        recorded[f"gradient/{weight}"] = {"l2": kept}
    return RuleCase(name, recorded=recorded, facts=of, fires=fires)


def alike(*names: str) -> ModelFacts:
    return replace(
        FACTS,
        parameters=tuple([replace(p, observed={**p.observed, HAS_EQUAL_ROWS: p.name in names}) for p in PARAMETERS]),
    )


def stepping(share: float) -> ModelFacts:
    return replace(FACTS, losses=(replace(FACTS.losses[0], observed={STEP_SHARE: share}),))


NOTHING = {A: 0.0, B: 0.0, C: 0.0}
LATER: Any = steady(1.0, 20, start=1)
ALL_ZERO = dict.fromkeys(NAMES, 0.0)
CASES = [
    case("all too large", dict.fromkeys(NAMES, 1000.0), fires=(A, B, C)),
    case("most too small", {A: 1e-3, B: 1e-5}, fires=(B, A)),
    case("a first loss that is far too high", loss=80.0, fires=(LOSS,)),
    case("zero, and nothing gets through", dict.fromkeys(NAMES, 0.0), gradient=NOTHING, fires=NAMES),
    case("units all alike", of=alike(A, B), fires=(A, B)),
    case("a first loss that is far too high, and stays so for long", losses=falling(80.0, 20.0, 21), fires=(LOSS,)),
    case("units that are steps", of=stepping(0.9), fires=(LOSS,)),
    case("some units that are steps", of=stepping(0.4)),
    case("as the framework does it"),
    case("a high first loss that is repaired at once", losses=falling(80.0, 2.3, 21)),
    case("one layer is large", {A: 1000.0}),
    case("a small head", {HEAD: 1e-4}),
    case("a head of zeros", {HEAD: 0.0}),
    case("a head whose rows are alike", of=alike(HEAD)),
    case("every matrix zero, and something gets through later", ALL_ZERO, gradient={A: {0: 0.0} | LATER}, fires=NAMES),
    case("heads side by side that begin at zero", ALL_ZERO),
    case("half of the matrices zero, as with adapters", {A: 0.0, C: 0.0}, gradient={B: {0: 0.0} | LATER}),
]

test_cases = every_case(PoorWeightInitialization(), CASES)


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        pytest.param(CASES[0], Cause.BAD_INITIALIZATION, id="large"),
        pytest.param(CASES[1], Cause.BAD_INITIALIZATION, id="small"),
        pytest.param(CASES[2], Cause.UNNORMALIZED_INPUTS, id="first-loss"),
        pytest.param(CASES[3], Cause.SYMMETRIC_INITIALIZATION, id="zero"),
        pytest.param(CASES[4], Cause.SYMMETRIC_INITIALIZATION, id="alike"),
        pytest.param(CASES[6], Cause.SATURATED_UNITS, id="steps"),
    ],
)
def test_what_it_suspects(case: RuleCase, cause: Cause) -> None:
    findings = assert_case(PoorWeightInitialization(), case)
    assert PoorWeightInitialization().suspicions(findings, case.window)[0].cause is cause


@pytest.mark.parametrize(
    ("case", "observes"),
    [
        pytest.param(CASES[0], True, id="large"),
        pytest.param(CASES[3], True, id="zero"),
        pytest.param(CASES[4], True, id="alike"),
        pytest.param(CASES[2], False, id="first-loss"),
        pytest.param(CASES[6], True, id="steps"),
    ],
)
def test_what_the_weights_themselves_show(case: RuleCase, observes: bool) -> None:
    assert PoorWeightInitialization().observes(assert_case(PoorWeightInitialization(), case)) is observes


def test_it_is_told_at_once_with_the_line() -> None:
    (finding, *_) = replay(PoorWeightInitialization(), CASES[0].trial)
    assert (finding.step, finding.since_step, finding.place) == (10, 0, "a.py:1")


@pytest.mark.parametrize(
    ("case", "lacks"),
    [
        pytest.param(CASES[5], False, id="enough"),
        pytest.param(case("an old run", of=None), True, id="no-facts"),
        pytest.param(case("just begun", steps=2), True, id="too-early"),
    ],
)
def test_what_it_lacks(case: RuleCase, lacks: bool) -> None:
    assert bool(PoorWeightInitialization().lacks(case.window)) is lacks
    assert not lacks or list(PoorWeightInitialization().check(case.window)) == []


@given(
    units=st.integers(1, 200),
    inputs=st.integers(1, 200),
    kernel=st.sampled_from([(), (3, 3), (5,)]),
    sigma=st.floats(1e-6, 1e3),
)
def test_the_scale_is_sigma_times_the_root_of_the_inputs(
    units: int, inputs: int, kernel: tuple[int, ...], sigma: float
) -> None:
    of_torch = ParameterFacts("w", "", (units, inputs, *kernel), "float32")
    of_keras = ParameterFacts("w", "", (*kernel, inputs, units), "float32", units_last=True)
    for held in (of_torch, of_keras):
        scale = scale_of(norm=sigma * math.sqrt(held.size), size=held.size, fan_in=held.fan_in)
        assert scale == pytest.approx(sigma * math.sqrt(inputs * math.prod(kernel)))


def test_what_holds_nothing_has_no_scale() -> None:
    nothing = ParameterFacts("w", "", (0, 4), "float32")
    assert scale_of(norm=0.0, size=nothing.size, fan_in=nothing.fan_in) == 0.0
