"""Objectives of scripts for boosted trees: right ones of many kinds, and with a wrong sign or scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from numpy.typing import NDArray

from trackside.adapters.shared.own_objectives import LOOKS, OwnObjectives
from trackside.capture.ground.guard import Guard
from trackside.contracts.run.recorded_names import (
    GRADIENTS_AGAINST_PREDICTIONS,
    SECOND_DERIVATIVES_OVER_SLOPE,
    SECOND_DERIVATIVES_POSITIVE,
)

Array = NDArray[Any]
Gradients = Callable[[Array, Array], tuple[Array, Array]]

random = np.random.default_rng(0)
INPUTS = random.normal(size=(400, 5))
NUMBERS = 2 * INPUTS[:, 0] + INPUTS[:, 1] ** 2
CLASSES, THREE = (NUMBERS > 1).astype(float), np.digitize(NUMBERS, [0, 2]).astype(float)
RARE = (NUMBERS > 4).astype(float)


def sigmoid(p: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-p)))


def logistic(p: Array, t: Array) -> tuple[Array, Array]:
    q = sigmoid(p)
    return q - t, q * (1 - q)


def wrong_sign(p: Array, t: Array) -> tuple[Array, Array]:
    q = sigmoid(p)
    return t - q, q * (1 - q)


def times(factor: float) -> Gradients:
    return lambda p, t: (logistic(p, t)[0], logistic(p, t)[1] * factor)


def first_order(p: Array, t: Array) -> tuple[Array, Array]:
    return logistic(p, t)[0], np.ones_like(p)


def weighted(p: Array, t: Array) -> tuple[Array, Array]:
    g, h = logistic(p, t)
    weights = np.where(t > 0, 20.0, 1.0)
    return weights * g, weights * h


def squared(p: Array, t: Array) -> tuple[Array, Array]:
    return 2 * (p - t), 2 * np.ones_like(p)


def squared_wrong_sign(p: Array, t: Array) -> tuple[Array, Array]:
    return t - p, np.ones_like(p)


def absolute(p: Array, t: Array) -> tuple[Array, Array]:
    return np.sign(p - t), np.ones_like(p)


def cauchy(p: Array, t: Array) -> tuple[Array, Array]:
    r = p - t
    return r / (1 + r * r), 1 / (1 + r * r)


def softmax(p: Array, t: Array) -> tuple[Array, Array]:
    p = p.reshape(len(t), 3)
    q = np.exp(p) / np.exp(p).sum(axis=1, keepdims=True)
    return q - np.eye(3)[t.astype(int)], 2 * q * (1 - q)


def softmax_wrong_sign(p: Array, t: Array) -> tuple[Array, Array]:
    g, h = softmax(p, t)
    return -g, h


def boosted(objective: Gradients, labels: Array, **settings: Any) -> list[Mapping[str, float]]:
    """Return the numbers of each round of a boosting with a watched objective."""
    watch, data = OwnObjectives(Guard()), xgboost.DMatrix(INPUTS, label=labels)
    model = xgboost.Booster({"nthread": 1, "max_depth": 3, "eta": 0.3, **settings}, [data])
    found = []
    for number in range(LOOKS + 2):
        model.update(data, number, watch.watched(model, lambda p, d: objective(p, d.get_label())))
        found.append(watch.numbers(model))
    return found


def highest(found: list[Mapping[str, float]], name: str) -> float:
    return max(numbers.get(name, 0.0) for numbers in found)


RIGHT = [
    (logistic, CLASSES, {}), (logistic, RARE, {}), (first_order, RARE, {}), (weighted, RARE, {}),
    (squared, NUMBERS, {}), (absolute, NUMBERS, {}), (cauchy, NUMBERS + 30, {"min_child_weight": 0}),
    (softmax, THREE, {"num_class": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("objective", "labels", "settings"), RIGHT)
def test_right_ones(objective: Gradients, labels: Array, settings: Mapping[str, Any]) -> None:
    found = boosted(objective, labels, **settings)
    assert highest(found, GRADIENTS_AGAINST_PREDICTIONS) < 0.5
    assert highest(found, SECOND_DERIVATIVES_OVER_SLOPE) < 50
    assert all(numbers[SECOND_DERIVATIVES_POSITIVE] == 1 for numbers in found[:LOOKS])


@pytest.mark.parametrize(
    ("objective", "labels", "settings"),
    [
        (wrong_sign, CLASSES, {}),
        (wrong_sign, RARE, {}),
        (squared_wrong_sign, NUMBERS, {}),
        (softmax_wrong_sign, THREE, {"num_class": 3}),
    ],
)
def test_a_wrong_sign(objective: Gradients, labels: Array, settings: Mapping[str, Any]) -> None:
    found = boosted(objective, labels, **settings)
    assert sum(numbers.get(GRADIENTS_AGAINST_PREDICTIONS, 0.0) > 0.9 for numbers in found) >= 2


def test_a_wrong_scale() -> None:
    assert 900 < highest(boosted(times(1000), CLASSES, min_child_weight=0), SECOND_DERIVATIVES_OVER_SLOPE) < 1100
    assert highest(boosted(times(0.001), CLASSES, min_child_weight=0), SECOND_DERIVATIVES_OVER_SLOPE) < 0.01


@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_no_curve(factor: float) -> None:
    assert boosted(times(factor), CLASSES)[0][SECOND_DERIVATIVES_POSITIVE] == 0


def test_nothing_is_looked_at_after_the_first_rounds() -> None:
    assert boosted(logistic, CLASSES)[LOOKS:] == [{}, {}]


def test_the_function_is_called_once_a_round_and_its_error_is_the_scripts() -> None:
    calls: list[int] = []

    def failing(p: Array, t: Array) -> tuple[Array, Array]:
        calls.append(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        boosted(failing, CLASSES)
    assert calls == [1]


def nonsense(p: Array, t: Array) -> Any:
    return None


def test_a_result_of_another_form_is_passed_on() -> None:
    watch = OwnObjectives(Guard())
    model = xgboost.Booster({"nthread": 1}, [xgboost.DMatrix(INPUTS, label=CLASSES)])
    assert watch.watched(model, nonsense)(np.zeros(4), CLASSES) is None
    assert watch.numbers(model) == {}
    assert watch.is_own(model)


def test_the_model_is_the_same(tmp_path: Any) -> None:
    def train(watch: OwnObjectives | None) -> Array:
        data = lightgbm.Dataset(INPUTS, CLASSES)
        model = lightgbm.Booster({"verbose": -1, "num_threads": 1, "objective": "none"}, data)
        for _ in range(8):
            objective: Any = lambda p, d: logistic(p, d.get_label())  # noqa: E731
            model.update(fobj=objective if watch is None else watch.watched(model, objective))
        return np.asarray(model.predict(INPUTS))

    assert np.array_equal(train(None), train(OwnObjectives(Guard())))
