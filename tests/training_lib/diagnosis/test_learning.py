"""What a run has learned by its end, whatever rules found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.training_lib.rules.columns import along, steady
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ParameterFacts, ProgramFacts
from trackside.contracts.run.learning import Learning
from trackside.contracts.run.recorded_names import RESTED_STEPS, SKIPPED_BEFORE, SKIPPED_STEP
from trackside.diagnosis.learning import learning_of
from trackside.testing.rule_case import RuleCase

LOSS, LABELS = "CrossEntropyLoss_output_0", "CrossEntropyLoss_input_1"
TWO_CLASSES = ModelFacts(losses=(LossFacts(LOSS, "CrossEntropyLoss", "mean", class_count=2),))
BY_HAND = ModelFacts(losses=(LossFacts(LOSS),))
GAN = ModelFacts(losses=TWO_CLASSES.losses, optimizers=(OptimizerFacts("A", "Adam"), OptimizerFacts("B", "Adam")))
NO_BETTER = "the loss ended at {}, and a constant answer costs 0.693"


def noisy(levels: Sequence[float] | NDArray[np.float64], *, share: float = 0.05) -> dict[int, float]:
    return along(np.asarray(levels) * (1 + share * np.random.default_rng(0).standard_normal(len(levels))))


def run(
    losses: dict[int, float], *, facts: ModelFacts = TWO_CLASSES, evaluated: dict[int, float] | None = None
) -> RuleCase:
    return RuleCase(
        "",
        {LABELS: {step: np.arange(32) % 2 for step in range(0, 100, 10)}},
        collections={"labels": (LABELS,)},
        facts=facts,
        recorded={LOSS: {"mean": losses}},
        evaluated={LOSS: {"mean": evaluated}} if evaluated else {},
    )


@pytest.mark.parametrize(
    ("case", "clause"),
    [
        pytest.param(run(noisy(np.linspace(7, 1.8, 100))), NO_BETTER.format("2.34"), id="came-back-from-ruin-in-part"),
        pytest.param(run(noisy(np.full(100, 0.693))), NO_BETTER.format("0.681"), id="never-learned"),
        pytest.param(run(noisy([*np.linspace(0.7, 0.2, 60), *[1.0] * 60])), NO_BETTER.format("1.01"), id="lost-it-all"),
        pytest.param(run(noisy(np.linspace(0.7, 0.2, 100))), "", id="learned"),
        pytest.param(run(noisy(np.full(100, 0.66), share=0.02)), "", id="near-a-guess-and-surely-below"),
        pytest.param(run(noisy(np.full(20, 0.693))), "", id="too-short-to-say"),
        pytest.param(
            run(noisy(np.full(100, 0.75)), evaluated=along([0.7, 0.4], every=50)), "", id="better-without-dropout"
        ),
        pytest.param(
            run(noisy(np.full(100, 0.75)), evaluated=along([0.3, 0.8], every=50)),
            NO_BETTER.format("0.738"),
            id="evaluations-were-better-once",
        ),
        pytest.param(run(noisy(np.full(100, 0.9)), facts=BY_HAND), "", id="of-a-loss-by-hand-nobody-can-tell"),
        pytest.param(run(noisy(np.full(100, 0.9)), facts=GAN), "", id="two-players"),
    ],
)
def test_the_level_of_the_last_losses(case: RuleCase, clause: str) -> None:
    assert learning_of(case.window) == Learning(level=clause)


A, B, VECTOR = (
    ParameterFacts(f"Net_{name}.weight", name, shape, "float32", optimizer="SGD") for name, shape in
    (("a", (8, 8)), ("b", (8, 8)), ("norm", (8,)))
)  # fmt: skip


@pytest.mark.parametrize(
    ("norms", "clause"),
    [
        pytest.param(
            {A: steady(0, 30), B: steady(1, 30)},
            "1 of 2 weights had a gradient of exactly zero at all 30 measured steps",
            id="one-of-two",
        ),
        pytest.param({A: steady(1e-30, 30), B: steady(1, 30)}, "", id="tiny-is-not-zero"),
        pytest.param({A: along([0.0] * 5 + [0.1] * 25), B: steady(1, 30)}, "", id="a-gate-that-opens"),
        pytest.param({A: steady(0, 9), B: steady(1, 9)}, "", id="too-short-to-say"),
        pytest.param({VECTOR: steady(0, 30), B: steady(1, 30)}, "", id="a-bias-before-a-norm"),
        pytest.param({A: along([0.0] * 29 + [np.nan]), B: steady(1, 30)}, "", id="not-a-number-is-not-zero"),
        pytest.param({}, "", id="not-measured"),
    ],
)
def test_gradients_that_were_zero_all_along(norms: dict[ParameterFacts, dict[int, float]], clause: str) -> None:
    recorded = {held.gradient: {"l2": values} for held, values in norms.items()}
    case = RuleCase("", recorded=recorded or {LOSS: {"mean": steady(1, 5)}}, facts=ModelFacts(parameters=tuple(norms)))
    assert learning_of(case.window) == Learning(zero_gradients=clause)


@pytest.mark.parametrize(
    ("recorded", "has_scaler", "clause"),
    [
        pytest.param({SKIPPED_STEP: along([0, 1, 0, 1, 0])}, True, "2 steps were skipped by GradScaler", id="fused"),
        pytest.param({SKIPPED_BEFORE: {3: 1.0, 9: 3.0}}, False, "4 steps were skipped", id="by-hand"),
        pytest.param({SKIPPED_BEFORE: {3: 1.0}}, True, "1 step was skipped by GradScaler", id="one"),
        pytest.param({SKIPPED_STEP: steady(0, 5)}, True, "", id="none-was"),
        pytest.param({}, True, "", id="not-recorded"),
    ],
)
def test_skipped_steps(recorded: dict[str, dict[int, float]], has_scaler: bool, clause: str) -> None:
    numbers = {name: {"mean": values} for name, values in recorded.items()}
    facts = ModelFacts(program=ProgramFacts("", "pytorch", "2.13.0", has_grad_scaler=has_scaler))
    case = RuleCase("", recorded={LOSS: {"mean": steady(1, 5)}, **numbers}, facts=facts)
    assert learning_of(case.window) == Learning(skipped=clause)


@pytest.mark.parametrize(
    ("recorded", "rested"), [({}, 0), ({450: 30.0, 500: 46.0}, 76)], ids=["watched whole", "rested"]
)
def test_steps_at_rest_are_counted(recorded: dict[int, float], rested: int) -> None:
    numbers = {RESTED_STEPS: {"mean": recorded}} if recorded else {}
    case = RuleCase("", recorded={LOSS: {"mean": steady(1, 5)}, **numbers})
    assert learning_of(case.window) == Learning(rested=rested)


@pytest.mark.parametrize(
    "learning", [Learning(), Learning("a", "b"), Learning(skipped="c", ran_out="d"), Learning(rested=7)]
)
def test_it_is_stored(learning: Learning) -> None:
    assert Learning.from_json(learning.to_json()) == learning
