"""Evaluations beside the training: what goes together, what is noise, what was never better than guessing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.training_lib.rules.columns import steady
from trackside.situation.losses.evaluations import (
    by_evaluation,
    error_of_rise,
    noise_of,
    starts_of_evaluations,
    training_of,
    was_never_better,
)
from trackside.situation.losses.guessing import Guess
from trackside.trial.rests import NO_RESTS, Rests
from trackside.trial.window import Column

RANDOM = np.random.default_rng(0)
ENTROPY, VARIANCE = Guess(1.0, is_of_classes=True), Guess(1.0, is_of_classes=False)
EASIER = Guess(1.0, is_of_classes=False, evaluated=0.8)
HARDER = Guess(1.0, is_of_classes=False, evaluated=1.3)


def column(values: dict[int, float], *, tensor: str = "Loss_output_0", worker: str = "worker_0") -> Column:
    return Column(tensor, worker, np.array([*values]), np.array([*values.values()]))


def test_batches_between_two_training_steps_are_one_evaluation() -> None:
    evaluated = Column("", "worker_0", np.array([10, 10, 10, 20, 20]), np.array([1.0, 2.0, 3.0, 4.0, 6.0]))
    seen = by_evaluation(evaluated, column(steady(0.5, 30)), NO_RESTS)
    assert seen is not None
    assert seen.steps.tolist() == [10, 20]
    assert seen.means.tolist() == [2.0, 5.0]
    assert [batch.tolist() for batch in seen.batches] == [[1.0, 2.0, 3.0], [4.0, 6.0]]
    assert seen.training.tolist() == seen.training_means.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("rests", "evaluated", "starts"),
    [
        pytest.param(NO_RESTS, [15, 16, 20, 40], [0, 3], id="no training step between: they are one evaluation"),
        pytest.param(Rests(np.array([20]), np.array([3])), [15, 16, 20, 40], [0, 2, 3], id="a rest between two"),
        pytest.param(Rests(np.array([30]), np.array([3])), [15, 16, 20, 40], [0, 3], id="a rest after them"),
    ],
)
def test_evaluations_with_a_rest_between_them_are_several(
    rests: Rests, evaluated: list[int], starts: list[int]
) -> None:
    assert starts_of_evaluations(np.array(evaluated), np.array([10, 11, 30]), rests).tolist() == starts


@pytest.mark.parametrize(
    ("evaluated", "training"),
    [
        pytest.param([21], [1.5], id="the training goes on right after it"),
        pytest.param([21, 41], [1.5, 2.5], id="each has a burst of its own"),
        pytest.param([10], [1.0], id="right after a watched step, before the rest"),
        pytest.param([21, 41, 61, 62], [1.5, 2.5], id="the newest is left out until the training goes on"),
    ],
)
def test_after_a_rest_the_training_on_both_sides_of_an_evaluation_counts(
    evaluated: list[int], training: list[float]
) -> None:
    trained = column({**steady(1.0, 10), 22: 2.0, 23: 2.0, 42: 3.0, 43: 3.0})
    seen = by_evaluation(column(dict.fromkeys(evaluated, 5.0)), trained, Rests(np.array([22, 42]), np.array([11, 17])))
    assert seen is not None
    assert seen.training.tolist() == training
    assert seen.steps.tolist() == evaluated[: len(training)]


def test_what_the_training_keeps_to_itself() -> None:
    seen = by_evaluation(
        column({10 * k: 1.0 for k in range(1, 11)}), column({k: 2.0 if k < 10 else 0.5 for k in range(110)}), NO_RESTS
    )
    assert seen is not None
    assert seen.unshared(1.0) == pytest.approx(1 / 3)
    assert seen.unshared(0.5) == 0
    assert seen.unshared(2.0) == 1


def test_nothing_is_compared_with_nothing() -> None:
    assert by_evaluation(column({10: float("nan")}), column(steady(0.5, 30)), NO_RESTS) is None


def test_the_error_of_a_rise_is_that_of_the_differences() -> None:
    before = np.array([0.1, 5.0, 0.3, 9.0])
    assert error_of_rise(before, before + np.array([0.5, 0.6, 0.5, 0.6])) < 0.05
    assert error_of_rise(before, before[:3]) > 1
    assert error_of_rise(before[:1], before[:1]) == 0


def test_noise_is_what_jumps_and_not_what_climbs() -> None:
    assert noise_of(np.linspace(0, 5, 40)) == pytest.approx(0, abs=1e-12)
    assert noise_of(RANDOM.normal(size=2000)) == pytest.approx(1, rel=0.1)


def test_the_training_loss_beside_a_validation_loss() -> None:
    one, other = column({0: 1.0}, tensor="A"), column({0: 1.0}, tensor="B")
    assert training_of(other, (one, other)) is other
    assert training_of(column({0: 1.0}, tensor="C"), (one,)) is one
    assert training_of(column({0: 1.0}, tensor="C"), (one, other)) is None
    assert training_of(column({0: 1.0}, tensor="A", worker="worker_1"), (one,)) is None


@pytest.mark.parametrize(
    ("losses", "guess", "expected"),
    [
        pytest.param([1.01, 1.0, 1.02, 1.01, 1.03, 1.02, 1.04, 1.05], ENTROPY, True, id="it-stays-at-guessing"),
        pytest.param([1.3, 1.1, 1.0, 1.01, 1.02, 1.02, 1.01, 1.01], ENTROPY, True, id="it-fell-to-guessing"),
        pytest.param([0.95, 0.96, 0.95, 0.97, 0.97, 0.98, 0.97, 0.97], VARIANCE, True, id="easier-rows-to-validate-on"),
        pytest.param([1.0, 0.9, 0.8, 0.7, 0.8, 0.9, 1.0, 1.1], ENTROPY, False, id="it-was-better-once"),
        pytest.param([1.02, 1.018, 1.016, 1.014, 1.012, 1.01, 1.008, 1.006], ENTROPY, False, id="it-still-falls"),
        pytest.param([1.3, 1.1, 1.0, 1.01, 1.02, 1.02, 1.01, 1.01], VARIANCE, False, id="numbers: it-fell"),
        pytest.param([1.3, 1.1, 1.0, 1.01, 1.02, 1.02, 1.01, 1.01], EASIER, True, id="numbers: not-below-their-own"),
        pytest.param([1.3, 1.1, 1.0, 0.75, 0.7, 0.75, 0.8, 0.8], EASIER, False, id="numbers: below-their-own"),
        pytest.param([1.3, 1.2, 1.1, 1.11, 1.12, 1.12, 1.11, 1.11], HARDER, False, id="numbers: below-harder-ones"),
        pytest.param([1.3, 1.29, 1.3, 1.29, 1.3, 1.31, 1.3, 1.31], HARDER, True, id="numbers: as-hard-as-they-are"),
        pytest.param([1.01, 1.03, 1.02, 1.04, 1.05, 1.03, 1.0, 1.06, 1.02], ENTROPY, True, id="a-late-best-by-chance"),
        pytest.param([1.0, 1.01, 1.02, 1.03], ENTROPY, False, id="too-few"),
    ],
)
def test_never_better_than_guessing(losses: Sequence[float], guess: Guess, expected: bool) -> None:
    evaluated = column({10 * k: loss for k, loss in enumerate(losses, 1)})
    seen = by_evaluation(evaluated, column(steady(1.0, 100)), NO_RESTS)
    assert seen is not None
    assert was_never_better(seen, guess) is expected
