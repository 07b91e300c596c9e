"""A kept moment comes back to the bit, in the same tensors, whatever optimizer, scheduler or average there is."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from trackside.rescue.members import Members
from trackside.rescue.room import Room
from trackside.rescue.snapshot import Snapshot

_OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "AdamW, rate in a tensor": lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), foreach=False),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "Adadelta": torch.optim.Adadelta,
    "Adagrad": torch.optim.Adagrad,
    "Rprop": torch.optim.Rprop,
}
# Its dot products depend on where tensors lie in memory, in their last bits.
_NEARLY = {"LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3)}
_SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: torch.optim.lr_scheduler.StepLR(o, 3, gamma=0.5),
    "LambdaLR": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)),
    "OneCycleLR": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=200),
    "SequentialLR": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [torch.optim.lr_scheduler.ConstantLR(o), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)],
        milestones=[4],
    ),
}


class _Training:
    def __init__(self, make: Callable[[Any], torch.optim.Optimizer]) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.2), nn.Linear(5, 1))
        self.average = copy.deepcopy(self.net).requires_grad_(False)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.optimizer = make(self.net.parameters())
        self.scheduler: Any = None
        self.draws: list[float] = []

    def step(self) -> None:
        rows = self.frozen(torch.randn(8, 4))

        def loss() -> torch.Tensor:
            self.optimizer.zero_grad()
            found = self.net(rows).square().mean()
            found.backward()
            return found

        self.optimizer.step(loss)
        if self.scheduler is not None:
            self.scheduler.step()
        with torch.no_grad():
            for mean, weight in zip(self.average.parameters(), self.net.parameters(), strict=True):
                mean.data.lerp_(weight, 0.1)
        self.draws.append(random.random())

    def vector(self) -> torch.Tensor:
        return nn.utils.parameters_to_vector(self.net.parameters()).detach().clone()

    def numbers(self) -> list[Any]:
        tensors = [*self.net.state_dict().values(), *self.average.state_dict().values()]
        rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        return [[each.tolist() for each in tensors], rates, self.draws[-3:]]


def _members(training: _Training) -> Members:
    members = Members()
    members.stepped(training.optimizer)
    members.look()
    training.step()
    members.look()  # now it is known that the average moves
    return members


@pytest.mark.parametrize("name", [*_OPTIMIZERS, *_NEARLY])
def test_an_optimizer_goes_on_to_the_bit(name: str) -> None:
    training = _Training({**_OPTIMIZERS, **_NEARLY}[name])
    for _ in range(3):
        training.step()
    members = _members(training)
    pointers = [each.data_ptr() for each in training.net.parameters()]
    snapshot = Snapshot(Room())
    snapshot.take(members, 4)
    for _ in range(5):
        training.step()
    expected, vector = training.numbers(), training.vector()
    for parameter in training.net.parameters():
        parameter.data.fill_(float("nan"))
    training.optimizer.param_groups[0]["lr"] = 7.0
    assert snapshot.is_usable()
    snapshot.put_back(with_random=True)
    assert [each.data_ptr() for each in training.net.parameters()] == pointers
    for _ in range(5):
        training.step()
    if name in _NEARLY:
        assert torch.allclose(training.vector(), vector, rtol=1e-4)
    else:
        assert training.numbers() == expected


@pytest.mark.parametrize("make", _SCHEDULERS.values(), ids=_SCHEDULERS)
def test_a_scheduler_goes_on_from_the_moment(make: Callable[[Any], Any]) -> None:
    training = _Training(lambda p: torch.optim.SGD(p, lr=0.1))
    training.scheduler = make(training.optimizer)
    members = _members(training)
    snapshot = Snapshot(Room())
    snapshot.take(members, 1)
    for _ in range(6):
        training.step()
    expected = training.numbers()
    snapshot.put_back(with_random=True)
    for _ in range(6):
        training.step()
    assert training.numbers() == expected


def test_frozen_weights_are_not_kept_and_averages_are() -> None:
    training = _Training(lambda p: torch.optim.SGD(p, lr=0.1))
    kept = {id(each) for each in _members(training).tensors()}
    assert {id(p) for p in training.net.parameters()} <= kept
    assert {id(p) for p in training.average.parameters()} <= kept
    assert not {id(p) for p in training.frozen.parameters()} & kept


def test_the_optimizer_of_another_training_is_none_of_its_parts() -> None:
    other = _Training(lambda p: torch.optim.SGD(p, lr=0.1))
    training = _Training(lambda p: torch.optim.SGD(p, lr=0.1))
    assert list(_members(training).optimizers()) == [training.optimizer]
    assert other.optimizer is not training.optimizer


def test_a_moment_of_other_parameters_is_not_usable() -> None:
    training = _Training(lambda p: torch.optim.SGD(p, lr=0.1))
    snapshot = Snapshot(Room())
    assert not snapshot.is_usable()
    snapshot.take(_members(training), 1)
    assert snapshot.is_usable()
    training.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    assert not snapshot.is_usable()


def test_the_parts_of_a_training_are_not_held() -> None:
    training = _Training(lambda p: torch.optim.SGD(p, lr=0.1))
    snapshot, members = Snapshot(Room()), _members(training)
    snapshot.take(members, 1)
    del training
    assert not list(members.optimizers())
    assert not snapshot.is_usable()
    snapshot.put_back(with_random=False)  # nothing is there, and nothing breaks
