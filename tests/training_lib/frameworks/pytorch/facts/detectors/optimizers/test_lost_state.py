"""Optimizers whose state is emptied again and again."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.optimizers.lost_state import LostStates

Optimizer = torch.optim.Optimizer
Act = Callable[[Optimizer, int], None]


def every(steps: int, act: Act) -> Act:
    return lambda optimizer, step: act(optimizer, step) if step % steps == 0 else None


def clear(optimizer: Optimizer, _: int) -> None:
    optimizer.state.clear()


def load(optimizer: Optimizer, _: int) -> None:
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def adam(parameters: list[torch.nn.Parameter]) -> Optimizer:
    return torch.optim.Adam(parameters, 1e-3)


def momentum(parameters: list[torch.nn.Parameter]) -> Optimizer:
    return torch.optim.SGD(parameters, 1e-3, momentum=0.9)


def plain(parameters: list[torch.nn.Parameter]) -> Optimizer:
    return torch.optim.SGD(parameters, 1e-3)


@pytest.mark.parametrize(
    ("make", "act", "expected"),
    [
        pytest.param(adam, every(10, clear), 10, id="Adam, every tenth step"),
        pytest.param(momentum, every(10, clear), 10, id="momentum, every tenth step"),
        pytest.param(adam, every(3, clear), 10, id="more often than it is looked at"),
        pytest.param(adam, every(35, clear), 30, id="every 35 steps"),
        pytest.param(adam, every(100, clear), 100, id="each phase of a hundred steps"),
        pytest.param(adam, lambda *_: None, 0, id="kept"),
        pytest.param(momentum, lambda *_: None, 0, id="momentum kept"),
        pytest.param(plain, every(10, clear), 0, id="an optimizer without a state"),
        pytest.param(adam, every(10, load), 0, id="loaded"),
        pytest.param(momentum, every(10, load), 0, id="momentum loaded"),
        pytest.param(adam, lambda o, step: clear(o, step) if step in (50, 200) else None, 0, id="twice"),
    ],
)
def test_how_often_it_is_lost(make: Callable[[list[torch.nn.Parameter]], Optimizer], act: Act, expected: int) -> None:
    parameters = [torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(2))]
    now = [0]
    optimizer, states = make(parameters), LostStates(Watch(steps=lambda: now[0]))
    for step in range(400):
        now[0] = step
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        if step % 10 == 0:
            states.before_step(optimizer)
        optimizer.step()
        if step % 10 == 0:
            states.after_step(optimizer)
        act(optimizer, step + 1)
    assert states.of(optimizer) in {expected, expected + (10 if expected == 30 else 0)}


class Anew:
    """A training whose optimizer is made anew every so many steps, which is looked at as it is made, and at tenths."""

    def __init__(self, make: Callable[[list[torch.nn.Parameter]], Optimizer], *, every: int) -> None:
        self.parameters = [torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(2))]
        self._make, self._every, self._now = make, every, 0
        self.states = LostStates(Watch(steps=lambda: self._now))

    def train(self, steps: int, between: Callable[[Anew, int], None] = lambda *_: None) -> int:
        """Return what is known of the newest optimizer."""
        optimizer = self._make(self.parameters)
        for step in range(steps):
            self._now, is_made = step, step > 0 and step % self._every == 0
            if is_made:
                between(self, step)
                optimizer = self._make(self.parameters)
            for parameter in self.parameters:
                parameter.grad = torch.ones_like(parameter)
            if is_made or step < 3 or step % 10 == 0:
                self.states.before_step(optimizer)
            optimizer.step()
        return self.states.of(optimizer)


class Batches:
    """An iterator over a data set, as a DataLoader makes it."""

    def __init__(self, dataset: object) -> None:
        self._dataset = dataset


def give_back(training: Anew, _: int) -> None:
    with torch.no_grad():
        for parameter in training.parameters:
            parameter.copy_(torch.ones_like(parameter))


def other_data(training: Anew, step: int) -> None:
    training.states.pass_met(Batches(torch.zeros(step)), None)


def same_data(training: Anew, _: int, data: torch.Tensor = torch.zeros(1)) -> None:  # noqa: B008 - one for all
    training.states.pass_met(Batches(data), None)


def with_state(parameters: list[torch.nn.Parameter]) -> Optimizer:
    optimizer = adam(parameters)
    for parameter in parameters:
        optimizer.state[parameter] = {
            "step": torch.tensor(500.0), "exp_avg": torch.ones_like(parameter), "exp_avg_sq": torch.ones_like(parameter)
        }  # fmt: skip
    return optimizer


@pytest.mark.parametrize(
    ("make", "every", "between", "expected"),
    [
        pytest.param(adam, 12, lambda *_: None, 12, id="each epoch"),
        pytest.param(momentum, 12, lambda *_: None, 12, id="with momentum"),
        pytest.param(adam, 12, same_data, 12, id="over the same data"),
        pytest.param(adam, 150, lambda *_: None, 0, id="twice"),
        pytest.param(adam, 12, give_back, 0, id="weights are given back, as in federated learning"),
        pytest.param(adam, 12, other_data, 0, id="each with data of its own"),
        pytest.param(with_state, 12, lambda *_: None, 0, id="with a state that was loaded"),
    ],
)
def test_optimizers_made_anew(
    make: Callable[[list[torch.nn.Parameter]], Optimizer],
    every: int,
    between: Callable[[Anew, int], None],
    expected: int,
) -> None:
    assert Anew(make, every=every).train(400, between) == expected


def test_models_made_anew_are_another_training() -> None:
    training = Anew(adam, every=12)

    def other_model(of: Anew, _: int) -> None:
        of.parameters = [torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(2))]

    assert training.train(400, other_model) == 0
