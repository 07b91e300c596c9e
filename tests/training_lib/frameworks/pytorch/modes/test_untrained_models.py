"""A model without training that is evaluated in place of the trained one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.contracts.observations import UNTRAINED_EVALUATIONS, UNTRAINED_LINE
from trackside.records.model_facts import read_facts

torch.set_num_threads(1)
VALUES, LABELS = torch.randn(32, 20, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 3


class Net(nn.Module):
    """A class of the script's own."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(20, 60), nn.Linear(60, 3)

    def forward(self, values: torch.Tensor) -> Any:
        return self.out(torch.relu(self.hidden(values)))


@torch.no_grad()
def evaluate(model: nn.Module) -> None:
    model.eval()(VALUES)


def fresh(_: nn.Module) -> None:
    evaluate(Net())


def loaded(model: nn.Module) -> None:
    other = Net()
    other.load_state_dict(model.state_dict())
    evaluate(other)


def both(model: nn.Module) -> None:
    evaluate(Net())
    evaluate(model)
    model.train()


def copied(model: nn.Module) -> None:
    evaluate(copy.deepcopy(model))


def in_training_mode(_: nn.Module) -> None:
    with torch.no_grad():
        Net()(VALUES)


def with_gradients(_: nn.Module) -> None:
    Net().eval()(VALUES)


@pytest.mark.parametrize(
    ("use", "every", "rate", "count"),
    [
        pytest.param(fresh, 30, 0.1, 3, id="fresh weights"),
        pytest.param(fresh, 45, 0.1, 2, id="fresh weights, twice"),
        pytest.param(loaded, 30, 0.1, 0, id="the trained weights"),
        pytest.param(copied, 30, 0.1, 0, id="a copy"),
        pytest.param(both, 30, 0.1, 0, id="compared with fresh weights"),
        pytest.param(fresh, 1, 0.1, 0, id="a random target at each step"),
        pytest.param(fresh, 10, 1e-7, 0, id="beside a model that has not trained yet"),
        pytest.param(in_training_mode, 30, 0.1, 0, id="in training mode"),
        pytest.param(with_gradients, 30, 0.1, 0, id="with gradients"),
    ],
)
def test_evaluations(capturing: Any, use: Callable[[nn.Module], None], every: int, rate: float, count: int) -> None:
    torch.manual_seed(0)
    model = Net()
    with capturing(losses=1) as store:
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        for step in range(100):
            optimizer.zero_grad()
            functional.cross_entropy(model(VALUES), LABELS).backward()
            optimizer.step()
            if step % every == every - 1:
                use(model)
    facts = read_facts(store, "worker_0")[-1].program
    assert UNTRAINED_EVALUATIONS.of(facts) == count
    assert UNTRAINED_LINE.of(facts).startswith("test_untrained_models.py:") is bool(count)
