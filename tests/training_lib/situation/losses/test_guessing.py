"""The loss of the best constant answer, against PyTorch's own losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trackside.contracts.model_facts import LossFacts, ModelFacts
from trackside.contracts.observations import COMPARED_WITH
from trackside.situation.losses.guessing import beats, best_guess, difference_of_labels, loss_of_guessing
from trackside.testing.rule_case import RuleCase

RANDOM = np.random.default_rng(0)
CLASSES = RANDOM.choice(3, size=400, p=(0.6, 0.3, 0.1))
YES = (RANDOM.random((400, 1)) < 0.2).astype(np.float32)
NUMBERS = RANDOM.gamma(2.0, size=(400, 2))
ENTROPY = LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", "mean", class_count=3)


def of(type_name: str) -> LossFacts:
    return LossFacts(f"{type_name}_output_0", type_name, "mean")


def least(loss: Callable[[float], Any]) -> float:
    """The smallest value over many constant answers."""
    return min(float(np.mean(loss(answer))) for answer in np.linspace(0.005, 8, 1600))


@pytest.mark.parametrize(
    ("loss", "labels", "expected"),
    [
        pytest.param(ENTROPY, CLASSES, None, id="classes"),
        pytest.param(ENTROPY, np.eye(3, dtype=np.float32)[CLASSES], None, id="one-hot-rows"),
        pytest.param(ENTROPY, np.append(CLASSES, [-100] * 50), None, id="places-that-do-not-count"),
        pytest.param(
            of("BCEWithLogitsLoss"),
            YES,
            least(lambda p: -YES * np.log(min(p, 0.999)) - (1 - YES) * np.log(1 - min(p, 0.999))),
            id="yes-or-no",
        ),
        pytest.param(of("MSELoss"), NUMBERS[:, :1], least(lambda x: (NUMBERS[:, 0] - x) ** 2), id="squares"),
        pytest.param(of("L1Loss"), NUMBERS[:, 1], least(lambda x: np.abs(NUMBERS[:, 1] - x)), id="distances"),
    ],
)
def test_it_is_the_least_of_all_constant_answers(loss: LossFacts, labels: Any, expected: float | None) -> None:
    if expected is None:
        shares = np.bincount(CLASSES) / len(CLASSES)
        expected = float(-(shares * np.log(shares)).sum())
    assert loss_of_guessing(loss, [labels[:200], labels[200:]]) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        pytest.param(LossFacts("loss_output_0"), [CLASSES], id="by-hand"),
        pytest.param(replace(ENTROPY, is_weighted=True), [CLASSES], id="weighted"),
        pytest.param(replace(ENTROPY, reduction="sum"), [CLASSES], id="a-sum"),
        pytest.param(replace(of("MSELoss"), observed={COMPARED_WITH: 32}), [NUMBERS], id="all-against-all"),
        pytest.param(ENTROPY, [], id="no-labels"),
        pytest.param(ENTROPY, [CLASSES[:8]], id="few-labels"),
        pytest.param(ENTROPY, [np.full(64, -100)], id="none-that-counts"),
        pytest.param(of("MSELoss"), [np.full((64, 1), np.nan)], id="not-finite"),
        pytest.param(ENTROPY, [RANDOM.integers(0, 500, 400)], id="hardly-a-label-for-each-class"),
    ],
)
def test_nobody_can_tell(loss: LossFacts, labels: list[Any]) -> None:
    assert loss_of_guessing(loss, labels) is None


def test_from_the_labels_of_a_run() -> None:
    case = RuleCase(
        "",
        {"CrossEntropyLoss_input_1": {step: CLASSES[step : step + 32] for step in range(0, 320, 10)}},
        collections={"labels": ("input_1$",)},
        facts=ModelFacts(losses=(ENTROPY,)),
    )
    guess = best_guess(case.window, ENTROPY.name, worker="worker_0")
    assert guess is not None
    assert guess.is_of_classes
    assert guess.loss == pytest.approx(0.9, rel=0.1)
    assert best_guess(case.window, "Other_output_0", worker="worker_0") is None
    assert best_guess(case.window, ENTROPY.name, worker="worker_1") is None


def noisy(level: float, deviation: float, count: int = 40) -> np.ndarray:
    return level + deviation * np.random.default_rng(1).standard_normal(count)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        pytest.param(noisy(4.0, 0.05), True, id="a-little-and-surely-below"),
        pytest.param(np.append(noisy(9.0, 0.05), noisy(4.0, 0.05, 20)), True, id="the-newest-count"),
        pytest.param(np.array([1.0]), True, id="a-single-one"),
        pytest.param(noisy(4.0, 1.0), False, id="below-by-noise"),
        pytest.param(noisy(4.2, 0.05), False, id="above"),
        pytest.param(np.append(noisy(1.0, 0.05), noisy(4.2, 0.05, 20)), False, id="once-below"),
    ],
)
def test_beating_a_guess_is_more_than_noise(losses: np.ndarray, expected: bool) -> None:
    assert beats(losses, 4.16) is expected


@pytest.mark.parametrize(
    ("trained", "differs"),
    [
        pytest.param(NUMBERS * 100, True, id="of-another-scale"),
        pytest.param(NUMBERS + 20, True, id="shifted"),
        pytest.param(np.zeros(200), True, id="all-alike"),
        pytest.param(NUMBERS[:200], False, id="other-rows"),
        pytest.param(NUMBERS + 1, False, id="a-little-larger"),
        pytest.param(-NUMBERS + 4, False, id="mirrored"),
    ],
)
def test_labels_of_training_and_evaluation(trained: np.ndarray, differs: bool) -> None:
    assert bool(difference_of_labels(trained.reshape(-1), NUMBERS.reshape(-1))) is differs
