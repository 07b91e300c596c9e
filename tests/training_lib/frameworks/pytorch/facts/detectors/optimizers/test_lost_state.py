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
