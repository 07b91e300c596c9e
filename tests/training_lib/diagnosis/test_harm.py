"""The one gate to a critical level: the training is being hurt, and not for a moment only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.training_lib.rules.columns import along, falling, steady
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts
from trackside.contracts.verdict import Finding, FindingKind, Severity
from trackside.diagnosis.harm import Harm, best_and_now, gated, harms_in
from trackside.situation.constants import LASTING_STEPS, LONG_LASTING
from trackside.testing.rule_case import RuleCase

LOSS, RATE = "CrossEntropyLoss_output_0", "hyperparameters/SGD/group_0/lr"
TWO = ModelFacts(optimizers=(OptimizerFacts("A", "Adam"), OptimizerFacts("B", "Adam")))

TEN = ModelFacts(losses=(LossFacts(LOSS, type_name="CrossEntropyLoss", class_count=10, reduction="mean"),))


def noisy(values: Sequence[float] | NDArray[np.float64], *, deviation: float = 0.05) -> dict[int, float]:
    noise = np.random.default_rng(1).normal(0, deviation, len(values))
    return along(np.asarray(values) + noise)


def finding(*, since: int, step: int, kind: FindingKind = FindingKind.NUMBER) -> Finding:
    return Finding("a", step, since, "share of units", 1.0, ">", 0.5, kind=kind)


@pytest.mark.parametrize(
    ("losses", "facts", "harms"),
    [
        pytest.param(falling(2.3, 0.1, 100), None, set(), id="falls"),
        pytest.param(noisy(np.linspace(2.3, 1.0, 200)), None, set(), id="falls-slowly-with-noise"),
        pytest.param(steady(2.3, 20), None, set(), id="too-short-to-say"),
        pytest.param(along([2.3] * 3 + [9.0]), None, set(), id="a-jump-in-the-first-steps"),
        pytest.param(along([*np.linspace(2, 0.5, 100), 9.0]), None, set(), id="one-spike"),
        pytest.param(steady(2.3, 100), TWO, set(), id="several-optimizers"),
        pytest.param(along(np.linspace(-1, -5, 100)), None, set(), id="below-zero"),
        pytest.param(steady(2.3, 100), None, {Harm.NOTHING_LEARNED}, id="flat"),
        pytest.param(noisy([2.3] * 100), None, {Harm.NOTHING_LEARNED}, id="flat-with-noise"),
        pytest.param(noisy(np.linspace(2.6, 2.29, 100)), TEN, {Harm.NOTHING_LEARNED}, id="came-down-to-guessing"),
        pytest.param(noisy(np.linspace(2.6, 1.9, 100)), TEN, set(), id="better-than-guessing"),
        pytest.param(noisy([2.3] * 20 + [2.2] * 100), TEN, set(), id="near-guessing-by-nature-and-surely-below"),
        pytest.param(
            noisy([2.3] * 20 + [2.2] * 100, deviation=0.5), TEN, {Harm.NOTHING_LEARNED}, id="below-guessing-by-noise"
        ),
        pytest.param(falling(0.5, 50.0, 100), None, {Harm.WORSENED, Harm.NOTHING_LEARNED}, id="rises-from-the-start"),
        pytest.param(
            along([*np.linspace(2, 0.5, 100), *np.linspace(0.5, 4, 60)]),
            None,
            {Harm.WORSENED, Harm.NOTHING_LEARNED},
            id="fell-and-rose-above-the-start",
        ),
        pytest.param(along([*np.linspace(2, 0.5, 100), *[1.6] * 60]), None, {Harm.WORSENED}, id="gave-back-its-gain"),
        pytest.param(along([2.3, 2.2, 2.1, math.nan]), None, {Harm.NOT_FINITE}, id="not-finite-at-once"),
    ],
)
def test_harm_to_the_loss(losses: dict[int, float], facts: ModelFacts | None, harms: set[Harm]) -> None:
    run = RuleCase("a run", recorded={LOSS: {"mean": losses}}, facts=facts).window
    assert set(harms_in([finding(since=run.step, step=run.step)], run)) == harms


def test_nothing_is_said_of_a_loss_while_the_rate_warms_up() -> None:
    rates = along(np.linspace(0.001, 0.1, 100))
    run = RuleCase("a run", recorded={LOSS: {"mean": steady(2.3, 100)}, RATE: {"mean": rates}}).window
    assert harms_in([finding(since=99, step=99)], run) == {}


@pytest.mark.parametrize(
    ("since", "kind", "harms"),
    [
        pytest.param(100 - LASTING_STEPS + 1, FindingKind.NUMBER, set(), id="not-yet"),
        pytest.param(100 - LASTING_STEPS, FindingKind.NUMBER, {Harm.LASTING}, id="lasted"),
        pytest.param(100, FindingKind.STANDSTILL, {Harm.STANDSTILL}, id="standstill-at-once"),
        pytest.param(100, FindingKind.NOT_FINITE, {Harm.NOT_FINITE}, id="not-finite-at-once"),
    ],
)
def test_harm_in_the_finding(since: int, kind: FindingKind, harms: set[Harm]) -> None:
    run = RuleCase("a run", recorded={LOSS: {"mean": falling(2.3, 0.1, 101)}}).window
    assert set(harms_in([finding(since=since, step=100, kind=kind)], run)) == harms


FLAT = {Harm.NOTHING_LEARNED: "the loss is 2.3"}
ALL = [harm.value for harm in Harm]


@pytest.mark.parametrize(
    ("severity", "harms", "allowed", "lasted", "expected"),
    [
        pytest.param(Severity.CRITICAL, FLAT, ALL, 0, Severity.CRITICAL, id="hurt"),
        pytest.param(Severity.CRITICAL, {}, ALL, 0, Severity.WARNING, id="not-hurt"),
        pytest.param(Severity.CRITICAL, FLAT, ["not-finite"], 0, Severity.WARNING, id="another-harm"),
        pytest.param(Severity.CRITICAL, FLAT, [], LONG_LASTING, Severity.WARNING, id="no-critical-level"),
        pytest.param(Severity.WARNING, FLAT, ALL, LONG_LASTING - 1, Severity.WARNING, id="a-warning-stays"),
        pytest.param(Severity.WARNING, FLAT, ALL, LONG_LASTING, Severity.CRITICAL, id="nothing-learned-for-long"),
        pytest.param(
            Severity.WARNING, {Harm.LASTING: "x"}, ALL, LONG_LASTING, Severity.WARNING, id="long-is-not-enough"
        ),
        pytest.param(Severity.INFO, FLAT, ALL, LONG_LASTING, Severity.INFO, id="a-remark-stays"),
    ],
)
def test_the_gate(
    severity: Severity, harms: dict[Harm, str], allowed: list[str], lasted: int, expected: Severity
) -> None:
    found, because = gated(severity, harms, allowed, lasted_steps=lasted)
    assert found is expected
    assert bool(because) is (expected is Severity.CRITICAL)


def test_best_and_now_are_medians_of_stretches() -> None:
    assert best_and_now(np.array([3.0, 3.0, 3.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0])) == (1.0, 1.0)
    assert best_and_now(np.array([1.0] * 3 + [2.0] * 6)) == (1.0, 2.0)
