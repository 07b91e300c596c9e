"""saturated-activation: units that sit at the flat ends of sigmoid or tanh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ModuleFacts
from trackside.rules.tensors.saturated_activation import SaturatedActivation, saturated_share
from trackside.testing.rule_case import RuleCase, assert_case, replay

LOSS, TANH, SIGMOID = "MSELoss_output_0", "act_input_0", "gate_input_0"
RANDOM = np.random.default_rng(0)
USUAL = RANDOM.normal(size=(32, 16)).astype(np.float32)
HUGE = (RANDOM.choice([-1, 1], size=(32, 16)) * RANDOM.uniform(20, 30, size=(32, 16))).astype(np.float32)
IMAGES = RANDOM.normal(size=(8, 6, 4, 4)).astype(np.float32)
FACTS = ModelFacts(
    modules=(
        ModuleFacts("act", "Tanh", "activation", "tanh", line="model.py:6"),
        ModuleFacts("gate", "Sigmoid", "activation", "sigmoid"),
    )
)


def case(
    name: str, inputs: Any, *, fires: bool = False, of: str = TANH, loss: Mapping[int, float] | None = None
) -> RuleCase:
    return RuleCase(
        name,
        {of: {0: inputs, 50: inputs, 100: inputs}},
        recorded={LOSS: {"mean": loss or steady(1.0, 101)}},
        collections={"saturating_inputs": (r"_input_\d+$",)},
        fires=(of,) if fires else (),
        facts=FACTS,
    )


def half(limit: float) -> Any:
    """Every unit but a quarter of them beyond the limit for every sample."""
    return np.where(np.arange(16) < 12, np.float32(limit), USUAL)


CASES = [
    case("all units", HUGE, fires=True),
    case("three quarters of them", half(8.0), fires=True),
    case("sigmoid", half(12.0), of=SIGMOID, fires=True),
    case("channels of images", IMAGES + 15, fires=True),
    case("positions of a text", np.repeat(HUGE[:, None, :], 5, axis=1), fires=True),
    case("usual", USUAL),
    case("sigmoid where tanh would be flat", half(4.0), of=SIGMOID),
    case("a quarter of them", np.where(np.arange(16) < 4, np.float32(9), USUAL)),
    case("some samples only", np.where(np.arange(32)[:, None] < 20, HUGE, USUAL)),
    case("a model that has learned", HUGE, loss=falling(1.0, 0.1, 101)),
    case("a batch of four", HUGE[:4]),
]

test_cases = every_case(SaturatedActivation(), CASES)


def test_it_names_the_line_and_the_causes() -> None:
    findings = assert_case(SaturatedActivation(), CASES[0])
    assert (findings[0].place, findings[0].observed) == ("model.py:6", 100.0)
    causes = [suspicion.cause for suspicion in SaturatedActivation().suspicions(findings, CASES[0].window)]
    assert causes == [Cause.SATURATED_UNITS, Cause.BAD_INITIALIZATION]


def test_the_worst_layer_leads() -> None:
    both = RuleCase(
        "two layers",
        {TANH: {0: half(8.0)}, SIGMOID: {0: HUGE}},
        collections={"saturating_inputs": (r"_input_\d+$",)},
        fires=(SIGMOID, TANH),
        facts=FACTS,
    )
    assert_case(SaturatedActivation(), both)


def test_it_is_told_at_the_second_saved_step() -> None:
    (finding,) = replay(SaturatedActivation(), CASES[0].trial)
    assert finding.step == 50


@given(seed=st.integers(0, 99), limit=st.floats(0.5, 10), more=st.floats(0, 10))
def test_a_higher_limit_never_saturates_more(seed: int, limit: float, more: float) -> None:
    inputs = np.random.default_rng(seed).normal(size=(16, 7)) * 8
    lower, higher = saturated_share(inputs, limit=limit), saturated_share(inputs, limit=limit + more)
    assert lower is not None
    assert higher is not None
    assert 0 <= higher <= lower <= 1


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(np.zeros((4, 3)), id="few-samples"),
        pytest.param(np.zeros(9), id="a-vector"),
        pytest.param(np.zeros((9, 3), np.int64), id="integers"),
        pytest.param(np.zeros((9, 0)), id="no-units"),
    ],
)
def test_what_cannot_be_told(inputs: Any) -> None:
    assert saturated_share(inputs, limit=3.0) is None
