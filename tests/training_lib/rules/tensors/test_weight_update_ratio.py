"""weight-update-ratio: steps are far too large or far too small for the weights."""

from __future__ import annotations

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
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ParameterFacts
from trackside.contracts.verdict import Severity
from trackside.rules.tensors.weight_update_ratio import WeightUpdateRatio
from trackside.situation.weight_updates import verdict_on
from trackside.testing.rule_case import RuleCase, assert_case, replay

LOSS, RATE, A, B = "CrossEntropyLoss_output_0", "hyperparameters/SGD/group_0/lr", "Net_a.weight", "Net_b.weight"
STUCK, LEARNS, RISES = steady(2.3, 101), falling(2.3, 0.2, 101), falling(2.3, 23.0, 101)


def facts(*, frozen: bool = False, optimizers: int = 1) -> ModelFacts:
    parameters = [ParameterFacts(n, n[4], (8, 8), "float32", requires_grad=not frozen, optimizer="SGD") for n in (A, B)]
    return ModelFacts(
        parameters=tuple(parameters),
        optimizers=tuple([OptimizerFacts(f"SGD_{n}", "SGD") for n in range(optimizers)]),
        losses=(LossFacts(LOSS, "CrossEntropyLoss", "mean", class_count=10),),
    )


def case(
    name: str,
    a: float,
    b: float,
    loss: Mapping[int, float] = STUCK,
    *,
    fires: tuple[str, ...] = (),
    rate: Mapping[int, float] | None = None,
    of: ModelFacts | None = None,
    count: int = 11,
) -> RuleCase:
    recorded: dict[str, Any] = {
        A: {"update_ratio": steady(a, count, every=10)},
        B: {"update_ratio": steady(b, count, every=10)},
        LOSS: {"mean": loss},
        RATE: {"mean": rate or steady(0.1, 101)},
    }
    return RuleCase(name, recorded=recorded, fires=fires, facts=of or facts())


GROWN = case("", 1e-4, 1e-4)
GROWN = replace(
    GROWN,
    recorded={
        **GROWN.recorded,
        A: {**GROWN.recorded[A], "l2": falling(1.0, 30.0, 11, every=10)},
        B: {**GROWN.recorded[B], "l2": falling(1.0, 90.0, 11, every=10)},
    },
)
REWARDS = steady(-1.0, 101)
FIRST_STEP = along([3.0, *[1e-4] * 10], every=10)
TORN = {
    **GROWN.recorded,
    LOSS: {"mean": REWARDS},
    A: {**GROWN.recorded[A], "update_ratio": FIRST_STEP},
    B: {**GROWN.recorded[B], "update_ratio": FIRST_STEP},
}
SOON = along(
    [0.6, 3.1, 1.9, 2.6, 2.2, 2.4, 1.8, 2.8, 2.0, 2.3, 0.9, 1.0, 0.5, 0.8, 0.7, 0.4, 0.9, 0.6, 0.5, 0.4]
)  # then evaluations
CASES = [
    case("both too large", 0.8, 2.0, fires=(B, A)),
    case("both too large, and the loss rises", 0.8, 2.0, RISES, fires=(B, A)),
    case("both too small", 1e-9, 1e-8, fires=(A, B)),
    case("next to nothing", 1e-12, 1e-13, fires=(B, A)),
    case("large by the median", 3.0, 0.001, fires=(A,)),
    case("small for so many steps", 8e-6, 5e-6, fires=(B, A)),
    case("small, and two models that compete", 1e-9, 1e-8, of=facts(optimizers=2), fires=(A, B)),
    case("small, and rewards", 1e-8, 1e-9, steady(-1.0, 101), fires=(B, A)),
    case(
        "a warm-up without end",
        1e-9,
        1e-9,
        steady(2.3, 401),
        rate=along([1e-9 * step for step in range(401)]),
        count=41,
        fires=(A, B),
    ),
    replace(GROWN, name="thrown out", fires=(B, A)),
    replace(GROWN, name="thrown out by the first step, and rewards", recorded=TORN, fires=(B, A)),
    case("usual", 1e-3, 4e-3),
    replace(GROWN, name="grown little by little, and rewards", recorded={**GROWN.recorded, LOSS: {"mean": REWARDS}}),
    replace(GROWN, name="large, and it learns", recorded={**GROWN.recorded, LOSS: {"mean": LEARNS}}),
    case("large steps that work", 0.8, 2.0, LEARNS),
    case("one layer learns", 1e-3, 1e-9),
    case("small while warming up", 1e-9, 1e-9, rate=along([1e-6 * step for step in range(101)])),
    case("fine-tuned: far below chance", 1e-8, 1e-8, steady(0.1, 101)),
    case("not too small for so few steps", 5e-5, 3e-5),
    case("small, and the loss falls by a thirtieth", 8e-6, 8e-6, falling(2.3, 2.22, 101), fires=(A, B)),
    case("small, and the loss falls", 8e-6, 8e-6, falling(2.3, 2.1, 101)),
    case("not tiny, and two models that compete", 8e-6, 8e-6, of=facts(optimizers=2)),
    case("large, and two models that compete", 0.8, 2.0, of=facts(optimizers=2)),
    case("frozen", 1e-9, 1e-9, of=facts(frozen=True)),
    case("both too large, few losses", 0.8, 2.0, {**steady(2.3, 20), 100: 2.3}, fires=(B, A)),
    case("both too large, and few losses rise", 0.8, 2.0, {**falling(2.3, 9.0, 20), 100: 9.0}, fires=(B, A)),
    case("large, and few losses that fall", 0.8, 2.0, SOON),
]


def ends_at(level: float, *, fires: bool) -> RuleCase:
    """A loss that falls from 9 to a level, beside labels of four classes: guessing them costs 1.386."""
    losses = along([level + (9 - level) * 0.8**step for step in range(101)])
    labels = {"CrossEntropyLoss_input_1": {step: np.arange(64) % 4 for step in (0, 50, 100)}}
    recorded = {**GROWN.recorded, LOSS: {"mean": losses}}
    fired, collections = (B, A) if fires else (), {"labels": ("_input_1$",)}
    name = f"ends at {level}"
    return RuleCase(name, labels, recorded=recorded, facts=facts(), fires=fired, collections=collections)


CASES += [
    replace(
        case(name, 1e-4, 1e-4, along([2.3, rose, *falling(2.3, 0.2, 99).values()]), of=of or facts()),
        recorded={
            **case("", 1e-4, 1e-4).recorded,
            LOSS: {"mean": along([2.3, rose, *falling(2.3, 0.2, 99).values()])},
            A: {"update_ratio": along([first, *[1e-4] * 10], every=10)},
            B: {"update_ratio": along([first, *[1e-4] * 10], every=10)},
        },
        fires=(LOSS,) if fires else (),
        step=step,
    )
    for name, first, rose, of, step, fires in (
        ("torn at the start", 0.9, 9.0, None, None, True),
        ("torn, and the loss does not mind", 0.9, 4.0, None, None, False),
        ("a loss that rises at first, of small steps", 0.3, 9.0, None, None, False),
        ("torn at the start of two aims", 0.9, 9.0, facts(optimizers=2), None, False),
        ("torn, too early", 0.9, 9.0, None, 20, False),
    )
]
CASES += [ends_at(1.38, fires=True), ends_at(1.3, fires=True), ends_at(1.2, fires=False), ends_at(0.4, fires=False)]


def test_weights_are_torn_since_the_step_that_tore_them() -> None:
    (torn,) = [case for case in CASES if case.name == "torn at the start"]
    (finding,) = assert_case(WeightUpdateRatio(), torn)
    assert (finding.since_step, finding.step) == (1, 100)


test_cases = every_case(WeightUpdateRatio(), CASES)


@pytest.mark.parametrize(
    ("case", "cause", "severity"),
    [
        pytest.param(CASES[0], Cause.LEARNING_RATE_TOO_HIGH, Severity.WARNING, id="large"),
        pytest.param(CASES[1], Cause.LEARNING_RATE_TOO_HIGH, Severity.CRITICAL, id="harmful"),
        pytest.param(CASES[2], Cause.LEARNING_RATE_TOO_LOW, Severity.WARNING, id="small"),
        pytest.param(CASES[3], Cause.LEARNING_RATE_TOO_LOW, Severity.CRITICAL, id="hopeless"),
    ],
)
def test_what_it_says(case: RuleCase, cause: Cause, severity: Severity) -> None:
    findings = assert_case(WeightUpdateRatio(), case)
    assert cause in [suspicion.cause for suspicion in WeightUpdateRatio().suspicions(findings, case.window)][:2]
    assert WeightUpdateRatio().severity_of(findings) is severity


def test_large_steps_are_told_within_fifty_steps_and_small_ones_within_a_hundred() -> None:
    assert replay(WeightUpdateRatio(), CASES[0].trial)[0].step <= 50
    assert replay(WeightUpdateRatio(), CASES[2].trial)[0].step <= 100


def test_what_it_lacks() -> None:
    assert WeightUpdateRatio().lacks(case("twice measured", 1.0, 1.0, count=2).window)
    assert WeightUpdateRatio().lacks(CASES[5].window) == ""


@given(ratios=st.lists(st.floats(1e-5, 0.05), min_size=1, max_size=9))
def test_what_is_usual_is_never_named(ratios: list[float]) -> None:
    assert verdict_on({str(n): r for n, r in enumerate(ratios)}, large=0.1, small=1e-6) == ""


@given(ratios=st.lists(st.floats(1e-12, 10), min_size=1, max_size=9), usual=st.floats(1e-5, 0.05))
def test_one_usual_weight_is_enough_not_to_be_small(ratios: list[float], usual: float) -> None:
    named = {str(n): r for n, r in enumerate([*ratios, usual])}
    assert verdict_on(named, large=0.1, small=1e-6) in {"", "large"}


def test_what_is_no_number_says_nothing() -> None:
    assert verdict_on({"a": float("nan"), "b": float("inf")}, large=0.1, small=1e-6) == ""
    assert verdict_on({"a": 0.0}, large=0.1, small=1e-6) == ""  # it is not trained at all: another rule's
