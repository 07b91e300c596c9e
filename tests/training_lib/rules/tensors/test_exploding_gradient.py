"""exploding-gradient: gradients are out of all proportion to the weights, or grow beyond all measure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import along, falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, OptimizerFacts, ParameterFacts
from trackside.rules.tensors.exploding_gradient import ExplodingGradient, growth_of, recent_growth_of
from trackside.testing.rule_case import RuleCase, assert_case

A, B, ALL = "Net_a.weight", "Net_b.weight", "all gradients"
GA, GB = f"gradient/{A}", f"gradient/{B}"
USUAL = steady(1.0, 61)
FACTS = ModelFacts(
    modules=(ModuleFacts("a", "Linear", "linear", line="model.py:2"),),
    parameters=(ParameterFacts(A, "a", (8, 8), "float32"), ParameterFacts(B, "b", (8, 8), "float32")),
)


def case(
    name: str,
    a: Mapping[int, float],
    b: Mapping[int, float] = USUAL,
    *,
    weight: float = 1.0,
    fires: tuple[str, ...] = (),
) -> RuleCase:
    recorded: dict[str, dict[str, Mapping[int, Any]]] = {
        A: {"l2": steady(weight, 7, every=10)},
        B: {"l2": steady(weight, 7, every=10)},
        f"gradient/{A}": {"l2": a},
        f"gradient/{B}": {"l2": b},
    }
    return RuleCase(name, recorded=recorded, fires=fires, facts=FACTS)


SECOND_TRAINER = (
    replace(FACTS, optimizers=(OptimizerFacts("SGD", "SGD"),)),
    replace(FACTS, from_step=60, optimizers=(OptimizerFacts("SGD_1", "SGD"),)),
)
LATE = [20.0] * 20 + [1.0] * 100
HUGE = steady(1e9, 61)
CASES = [
    case("out of proportion", HUGE, steady(1e8, 61), fires=(GA, GB)),
    case("out of proportion to tiny weights", USUAL, USUAL, weight=1e-9, fires=(GA, GB)),
    case("grown a million times", along([1.0] * 40 + [1e6] * 21), weight=100.0, fires=(ALL,)),
    case("growing all along", falling(1e-3, 1e5, 61), steady(1e-3, 61), weight=10.0, fires=(ALL,)),
    case("spikes that stay", along([1.0] * 58 + [1e7] * 3), weight=1e4, fires=(ALL,)),
    case("a late blow-up, no larger than at first", along([*LATE, 60.0, 70.0, 80.0]), weight=1e3, fires=(ALL,)),
    replace(
        case("under a second trainer", along([1e-3] * 60 + [1.0] * 40 + [1e4] * 3), weight=1e3, fires=(ALL,)),
        facts=SECOND_TRAINER,
    ),
    replace(
        case("a second trainer's gradients", along([1e-3] * 60 + [10.0] * 40), steady(1e-3, 100), weight=1e3),
        facts=SECOND_TRAINER,
    ),
    case("a late blow-up that is over", along([*LATE, 60.0, 70.0, 80.0, 1.0]), weight=1e3),
    case("late, but the run has been there", along(LATE + [20.0] * 6 + LATE[20:] + [30.0] * 3), weight=1e3),
    case("late, but not by that much", along([*LATE, 30.0, 35.0, 40.0]), weight=1e3),
    case("usual", USUAL),
    case("large from the start, but not that large", steady(100.0, 61), steady(50.0, 61)),
    case("a single spike", along([1.0] * 50 + [1e7] + [1.0] * 10)),
    case("falling", falling(100.0, 1e-3, 61)),
    case("no number: exploding-tensor's", along([1.0] * 40 + [math.nan] * 21), along([1.0] * 40 + [math.inf] * 21)),
]

test_cases = every_case(ExplodingGradient(), CASES)


@pytest.mark.parametrize(
    ("case", "second", "since"),
    [
        pytest.param(CASES[0], Cause.BAD_INITIALIZATION, 0, id="proportion"),
        pytest.param(CASES[2], Cause.LEARNING_RATE_TOO_HIGH, 40, id="growth"),
    ],
)
def test_what_it_suspects(case: RuleCase, second: Cause, since: int) -> None:
    findings = assert_case(ExplodingGradient(), case)
    causes = [suspicion.cause for suspicion in ExplodingGradient().suspicions(findings, case.window)]
    assert causes[:2] == [Cause.EXPLODING_GRADIENTS, second]
    assert findings[0].since_step == since


def test_it_names_the_line() -> None:
    assert assert_case(ExplodingGradient(), CASES[0])[0].place == "model.py:2"


@given(
    norms=st.lists(st.floats(1e-6, 1e6), min_size=23, max_size=60), scale=st.floats(1e-3, 1e3), newest=st.floats(1, 10)
)
def test_growth_has_no_unit_and_what_grows_more_has_grown_more(norms: list[float], scale: float, newest: float) -> None:
    values = np.array(norms)
    growth = growth_of(values)
    assert growth is not None
    assert growth_of(values * scale) == pytest.approx(growth)
    if len(values) >= 26:
        assert growth_of(np.array([*values[:-3], *(values[-3:] * newest)])) == pytest.approx(growth * newest)


@pytest.mark.parametrize("norms", [np.ones(22), np.zeros(40)], ids=["too-few", "zeros"])
def test_what_cannot_be_told(norms: np.ndarray) -> None:
    assert growth_of(norms) is None
    assert recent_growth_of(norms) is None
