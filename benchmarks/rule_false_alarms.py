"""How often do the rules cry wolf? Trains many clean runs and some faulty ones, judges each as the evaluator would.

    .venv/bin/python benchmarks/rule_false_alarms.py --seeds 5

Every run is a network of a few layers on scikit-learn's handwritten digits, one thread, seeded. Losses are recorded
every 10 steps, weights and gradients every 100, as the default request asks. A clean run must reach an accuracy that
shows that it learned, so that nobody can call a faulty run clean. Exit code 1 if a clean run raised an alarm.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn

from trackside.contracts.verdict import Finding, Severity
from trackside.rules.catalogue import built_in_rules
from trackside.testing.rule_case import recorded_trial, replay
from trackside.trial.trial import Trial

LOSS_INTERVAL = 10
TENSOR_INTERVAL = 100
LEAST_ACCURACY = 0.9  # of a clean run, on its training data


@dataclass(frozen=True)
class Recipe:
    """How to train one network, and what is wrong with it ("" for a clean one)."""

    name: str
    layers: Callable[[], nn.Module]
    optimizer: Callable[..., torch.optim.Optimizer]
    batch: int
    steps: int
    fault: str = ""
    input_scale: float = 1.0


@dataclass(frozen=True)
class Run:
    """What a run recorded, and how well it did on its training data."""

    trial: Trial
    accuracy: float


def perceptron(depth: int, activation: type[nn.Module], *, width: int = 32, normalise: bool = False) -> nn.Module:
    """`depth` linear layers, with the activation between them."""
    layers: list[nn.Module] = []
    for inputs in [64, *[width] * (depth - 2)]:
        layers += [nn.Linear(inputs, width), *([nn.BatchNorm1d(width)] if normalise else []), activation()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def adam(rate: float) -> Callable[..., torch.optim.Optimizer]:
    """Adam with this learning rate."""
    return partial(torch.optim.Adam, lr=rate)


def sgd(rate: float, *, momentum: float = 0.0) -> Callable[..., torch.optim.Optimizer]:
    """SGD with this learning rate."""
    return partial(torch.optim.SGD, lr=rate, momentum=momentum)


SHALLOW = partial(perceptron, 2, nn.ReLU)
MIDDLE = partial(perceptron, 3, nn.ReLU)

CLEAN = (
    Recipe("relu-2 sgd 0.1 batch 32", SHALLOW, sgd(0.1), 32, 2000),
    Recipe("relu-2 sgd 0.1 batch 128", SHALLOW, sgd(0.1), 128, 2000),
    Recipe("relu-3 adam 1e-3 batch 32", MIDDLE, adam(1e-3), 32, 3000),
    Recipe("relu-3 adam 1e-3 batch 128", MIDDLE, adam(1e-3), 128, 2000),
    Recipe("relu-3 adam 1e-2 batch 128, far past convergence", MIDDLE, adam(1e-2), 128, 8000),
    Recipe("relu-3 adam 1e-3 batch 1, very noisy", MIDDLE, adam(1e-3), 1, 4000),
    Recipe("relu-3 sgd 0.01 batch 4, noisy", MIDDLE, sgd(0.01), 4, 4000),
    Recipe("relu-6 adam 1e-3 batch 32", partial(perceptron, 6, nn.ReLU), adam(1e-3), 32, 3000),
    Recipe("relu-4 batch norm, sgd 0.1 batch 32", partial(perceptron, 4, nn.ReLU, normalise=True), sgd(0.1), 32, 2000),
    Recipe("tanh-4 sgd 0.05 momentum batch 32", partial(perceptron, 4, nn.Tanh), sgd(0.05, momentum=0.9), 32, 3000),
    Recipe("sigmoid-3 adam 1e-3 batch 32", partial(perceptron, 3, nn.Sigmoid), adam(1e-3), 32, 3000),
    Recipe("sigmoid-3 sgd 0.1 batch 32, slow to start", partial(perceptron, 3, nn.Sigmoid), sgd(0.1), 32, 5000),
)

FAULTY = (
    Recipe("sigmoid-12 sgd 0.1", partial(perceptron, 12, nn.Sigmoid), sgd(0.1), 32, 2000, "vanishing gradients"),
    Recipe("sigmoid-12 adam 1e-3", partial(perceptron, 12, nn.Sigmoid), adam(1e-3), 32, 2000, "vanishing gradients"),
    Recipe("sigmoid-60 adam 1e-3", partial(perceptron, 60, nn.Sigmoid), adam(1e-3), 32, 1200, "gradients underflow"),
    Recipe("relu-6 sgd 1e3", partial(perceptron, 6, nn.ReLU), sgd(1e3), 32, 1200, "learning rate explodes"),
    Recipe("relu-3 sgd 1e3", MIDDLE, sgd(1e3), 32, 1500, "learning rate too high"),
    Recipe("relu-3 adam 10", MIDDLE, adam(10.0), 32, 1500, "learning rate too high"),
    Recipe("relu-3 sgd 1e-7 batch 32", MIDDLE, sgd(1e-7), 32, 3000, "learning rate too low"),
    Recipe("relu-3 sgd 1e-7 batch 128", MIDDLE, sgd(1e-7), 128, 3000, "learning rate too low"),
    Recipe("relu-3 adam 1e-3, inputs NaN", MIDDLE, adam(1e-3), 32, 200, "broken inputs", float("nan")),
)


def train(recipe: Recipe, seed: int) -> Run:
    """Trains one run and records what the default request would save."""
    torch.manual_seed(seed)
    features, labels = _digits()
    features = features * recipe.input_scale
    model = recipe.layers()
    optimizer = recipe.optimizer(model.parameters())
    loss_of = nn.CrossEntropyLoss()
    recorded: dict[str, dict[int, Any]] = {"CrossEntropyLoss_output_0": {}}
    batches = _batches(len(features), recipe.batch)
    for step in range(recipe.steps):
        rows = next(batches)
        optimizer.zero_grad()
        loss = loss_of(model(features[rows]), labels[rows])
        loss.backward()
        if step % LOSS_INTERVAL == 0:
            recorded["CrossEntropyLoss_output_0"][step] = loss.detach().numpy().copy()
        if step % TENSOR_INTERVAL == 0:
            for name, weight in model.named_parameters():
                recorded.setdefault(f"Sequential_{name}", {})[step] = weight.detach().numpy().copy()
                if weight.grad is not None:
                    recorded.setdefault(f"gradient/Sequential_{name}", {})[step] = weight.grad.numpy().copy()
        optimizer.step()
    with torch.no_grad():
        accuracy = float((model.eval()(features).argmax(1) == labels).float().mean())
    return Run(recorded_trial(recorded), accuracy)


def judge(run: Run) -> dict[str, Finding]:
    """The leading finding of each rule that would have raised an alarm: a warning at least, by a rule that is usual."""
    alarms = {}
    for rule_id, rule in built_in_rules().items():
        findings = replay(rule(), run.trial) if rule.describe().is_on_by_default else ()
        if findings and rule().severity_of(findings) is not Severity.INFO:
            alarms[rule_id] = findings[0]
    return alarms


def main() -> int:
    """Prints one line per run, then the table; 1 if a clean run raised an alarm."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=5, help="runs of each recipe")
    options.add_argument("--only", default="", help="recipes whose name holds this text")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    false_alarms: Counter[str] = Counter()
    clean_runs = 0
    for recipe in (*CLEAN, *FAULTY):
        if arguments.only not in recipe.name:
            continue
        for seed in range(arguments.seeds):
            run = train(recipe, seed)
            alarms = judge(run)
            found = "; ".join(f"{rule} at {f.step} ({f.subject}: {f.comparison})" for rule, f in alarms.items())
            print(
                f"{recipe.fault or 'clean':24} {recipe.name} #{seed} accuracy {run.accuracy:.3f}: {found or 'silent'}"
            )
            if not recipe.fault:
                clean_runs += 1
                false_alarms.update(alarms.keys())
                assert run.accuracy > LEAST_ACCURACY, "a clean run must learn"
    for rule_id in built_in_rules():
        print(f"{rule_id}: {false_alarms[rule_id]} of {clean_runs} clean runs raised an alarm")
    print(f"{time.perf_counter() - began:.0f} s")
    return 1 if false_alarms else 0


@cache
def _digits() -> tuple[torch.Tensor, torch.Tensor]:
    features, labels = load_digits(return_X_y=True)
    return torch.tensor(features / 16, dtype=torch.float32), torch.tensor(labels)


def _batches(size: int, batch: int) -> Iterator[torch.Tensor]:
    while True:
        order = torch.randperm(size)
        for first in range(0, size - batch + 1, batch):
            yield order[first : first + batch]


if __name__ == "__main__":
    sys.exit(main())
