"""Real training runs: every clean one is silent under every rule, every faulty one is named.

Every run is a network of a few layers on scikit-learn's handwritten digits. Losses are recorded every 10 steps, weights
and gradients every 100, as the default request asks. A clean run must reach an accuracy that shows that it learned, so
that nobody can call a faulty run clean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from trackside.contracts.verdict import Finding, Severity
from trackside.rules.catalogue import built_in_rules
from trackside.testing.rule_case import recorded_trial, replay
from trackside.trial.trial import Trial

VANISHING, EXPLODING, STUCK = "vanishing-gradient", "exploding-tensor", "loss-not-decreasing"
LEAST_ACCURACY = 0.9  # of a clean run, on its training data
Optimizer = Callable[..., torch.optim.Optimizer]


def perceptron(depth: int, activation: type[nn.Module], *, normalise: bool = False) -> nn.Module:
    """Return `depth` linear layers, with the activation between them."""
    layers: list[nn.Module] = []
    for inputs in [64, *[32] * (depth - 2)]:
        layers += [nn.Linear(inputs, 32), *([nn.BatchNorm1d(32)] if normalise else []), activation()]
    return nn.Sequential(*layers, nn.Linear(32, 10))


@cache
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    features, labels = load_digits(return_X_y=True)
    return torch.tensor(features / 16, dtype=torch.float32), torch.tensor(labels)


def batches(size: int, batch: int) -> Iterator[torch.Tensor]:
    while True:
        order = torch.randperm(size)
        for first in range(0, size - batch + 1, batch):
            yield order[first : first + batch]


def train(
    network: Callable[[], nn.Module],
    optimizer: Optimizer,
    batch: int,
    *,
    steps: int = 1500,  # past the first step at which loss-not-decreasing can say that a run is stuck
    seed: int = 0,
    scale: float = 1.0,
) -> tuple[Trial, float]:
    """Return what the default request would save of a run, and its accuracy on its training data."""
    torch.manual_seed(seed)
    features, labels = digits()
    features = features * scale
    model = network()
    optimizes = optimizer(model.parameters())
    recorded: dict[str, dict[int, Any]] = {"CrossEntropyLoss_output_0": {}}
    rows = batches(len(features), batch)
    for step in range(steps):
        chosen = next(rows)
        optimizes.zero_grad()
        loss = nn.functional.cross_entropy(model(features[chosen]), labels[chosen])
        loss.backward()
        if step % 10 == 0:
            recorded["CrossEntropyLoss_output_0"][step] = loss.detach().numpy().copy()
        if step % 100 == 0:
            for name, weight in model.named_parameters():
                assert weight.grad is not None
                recorded.setdefault(f"Sequential_{name}", {})[step] = weight.detach().numpy().copy()
                recorded.setdefault(f"gradient/Sequential_{name}", {})[step] = weight.grad.numpy().copy()
        optimizes.step()
    with torch.no_grad():
        return recorded_trial(recorded), float((model.eval()(features).argmax(1) == labels).float().mean())


def alarms(trial: Trial) -> dict[str, Finding]:
    """Return the leading finding of each usual rule that would have warned."""
    found = {}
    for rule_id, rule in built_in_rules().items():
        findings = replay(rule(), trial) if rule.describe().is_on_by_default else ()
        if findings and rule().severity_of(findings) is not Severity.INFO:
            found[rule_id] = findings[0]
    return found


def relu(depth: int) -> Callable[[], nn.Module]:
    return partial(perceptron, depth, nn.ReLU)


def sigmoid(depth: int) -> Callable[[], nn.Module]:
    return partial(perceptron, depth, nn.Sigmoid)


def adam(rate: float) -> Optimizer:
    return partial(torch.optim.Adam, lr=rate)


def sgd(rate: float, *, momentum: float = 0.0) -> Optimizer:
    return partial(torch.optim.SGD, lr=rate, momentum=momentum)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("network", "optimizer", "batch"),
    [
        pytest.param(relu(2), sgd(0.1), 32, id="sgd"),
        pytest.param(relu(2), sgd(0.1), 128, id="sgd with large batches"),
        pytest.param(relu(3), adam(1e-3), 32, id="adam"),
        pytest.param(relu(3), adam(1e-3), 128, id="adam with large batches"),
    ],
)
def test_clean_runs_are_silent(network: Callable[[], nn.Module], optimizer: Optimizer, batch: int, seed: int) -> None:
    trial, accuracy = train(network, optimizer, batch, seed=seed)
    assert accuracy > LEAST_ACCURACY
    assert alarms(trial) == {}


@pytest.mark.parametrize(
    ("network", "optimizer", "batch", "steps"),
    [
        pytest.param(relu(3), adam(1e-2), 128, 3000, id="far past convergence"),
        pytest.param(partial(perceptron, 4, nn.ReLU, normalise=True), sgd(0.1), 32, 2000, id="batch norm"),
        pytest.param(partial(perceptron, 4, nn.Tanh), sgd(0.05, momentum=0.9), 32, 3000, id="tanh, momentum"),
    ],
)
def test_clean_runs_with_small_gradients_are_silent(
    network: Callable[[], nn.Module], optimizer: Optimizer, batch: int, steps: int
) -> None:
    trial, accuracy = train(network, optimizer, batch, steps=steps)
    assert accuracy > LEAST_ACCURACY
    assert alarms(trial) == {}


@pytest.mark.parametrize(
    ("run", "first_steps"),
    [
        pytest.param(partial(train, sigmoid(12), sgd(0.1), 32), {VANISHING: 200, STUCK: 1010}, id="deep sigmoid"),
        pytest.param(
            partial(train, relu(6), sgd(1e3), 32, steps=1200), {EXPLODING: 10}, id="a learning rate that explodes"
        ),
        pytest.param(
            partial(train, relu(3), adam(1e-3), 32, steps=200, scale=float("nan")), {EXPLODING: 0}, id="broken inputs"
        ),
        pytest.param(partial(train, relu(3), sgd(1e-7), 128), {STUCK: 1010}, id="a learning rate far too low"),
    ],
)
def test_faulty_runs_are_named(run: Callable[[], tuple[Trial, float]], first_steps: dict[str, int]) -> None:
    found = alarms(run()[0])
    assert set(first_steps) <= set(found)  # others may see the same fault
    late = {rule: found[rule].step for rule, step in first_steps.items() if found[rule].step > step + 200}
    assert not late, f"later than measured: {late}"


def test_a_net_so_deep_that_gradients_underflow_to_zero_is_named() -> None:
    finding = alarms(train(sigmoid(60), adam(1e-3), 32, steps=300)[0])[VANISHING]
    assert finding.step == 200
    assert finding.statistics["zero_gradients"] > 0


def test_a_vanishing_net_is_named_from_its_first_layer() -> None:
    finding = alarms(train(sigmoid(12), sgd(0.1), 32, steps=300)[0])[VANISHING]
    assert finding.subject == "gradient/Sequential_0.weight"
    assert finding.since_step == 0
