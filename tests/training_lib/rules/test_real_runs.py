"""Real training runs: every clean one is silent under every rule, every faulty one is named.

The recipes are those of `benchmarks/rule_false_alarms.py`, which trains more of them for longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from benchmarks.rule_false_alarms import CLEAN, FAULTY, LEAST_ACCURACY, Recipe, judge, train

VANISHING, EXPLODING, STUCK = "vanishing-gradient", "exploding-tensor", "loss-not-decreasing"

CLEAN_RECIPES = {recipe.name: recipe for recipe in CLEAN}
FAULTY_RECIPES = {recipe.name: recipe for recipe in FAULTY}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Two test processes share two cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def shortened(recipe: Recipe) -> Recipe:
    """At most 1,500 steps: past the first step at which loss-not-decreasing can say that a run is stuck."""
    return replace(recipe, steps=min(recipe.steps, 1500))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "name",
    ["relu-2 sgd 0.1 batch 32", "relu-2 sgd 0.1 batch 128", "relu-3 adam 1e-3 batch 32", "relu-3 adam 1e-3 batch 128"],
)
def test_clean_runs_are_silent(name: str, seed: int) -> None:
    run = train(shortened(CLEAN_RECIPES[name]), seed)
    assert run.accuracy > LEAST_ACCURACY
    assert judge(run) == {}


@pytest.mark.parametrize(
    "name",
    [
        "relu-3 adam 1e-2 batch 128, far past convergence",
        "relu-4 batch norm, sgd 0.1 batch 32",
        "tanh-4 sgd 0.05 momentum batch 32",
    ],
)
def test_clean_runs_with_small_gradients_are_silent(name: str) -> None:
    run = train(replace(CLEAN_RECIPES[name], steps=min(CLEAN_RECIPES[name].steps, 3000)), 0)
    assert run.accuracy > LEAST_ACCURACY
    assert judge(run) == {}


@pytest.mark.parametrize(
    ("name", "first_steps"),
    [
        pytest.param("sigmoid-12 sgd 0.1", {VANISHING: 200, STUCK: 1010}, id="deep sigmoid"),
        pytest.param("relu-6 sgd 1e3", {EXPLODING: 10}, id="a learning rate that explodes"),
        pytest.param("relu-3 adam 1e-3, inputs NaN", {EXPLODING: 0}, id="broken inputs"),
        pytest.param("relu-3 sgd 1e-7 batch 128", {STUCK: 1010}, id="a learning rate far too low"),
    ],
)
def test_faulty_runs_are_named(name: str, first_steps: dict[str, int]) -> None:
    alarms = judge(train(shortened(FAULTY_RECIPES[name]), 0))
    assert set(first_steps) <= set(alarms)  # others may see the same fault
    late = {rule: alarms[rule].step for rule, step in first_steps.items() if alarms[rule].step > step + 200}
    assert not late, f"later than measured: {late}"


def test_a_net_so_deep_that_gradients_underflow_to_zero_is_named() -> None:
    finding = judge(train(replace(FAULTY_RECIPES["sigmoid-60 adam 1e-3"], steps=300), 0))[VANISHING]
    assert finding.step == 200
    assert finding.statistics["zero_gradients"] > 0


def test_a_vanishing_net_is_named_from_its_first_layer() -> None:
    finding = judge(train(replace(FAULTY_RECIPES["sigmoid-12 sgd 0.1"], steps=300), 0))[VANISHING]
    assert finding.subject == "gradient/Sequential_0.weight"
    assert finding.since_step == 0
