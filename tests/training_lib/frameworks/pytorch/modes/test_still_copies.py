"""A copy of the model that is evaluated in its place, and never changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.contracts.observations import STILL_COPY_EVALUATIONS, STILL_COPY_LINE
from trackside.records.model_facts import read_facts

torch.set_num_threads(1)
VALUES, LABELS = torch.randn(16, 6, generator=torch.Generator().manual_seed(0)), torch.arange(16) % 3


class Net(nn.Module):
    """A class of the script's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = sequential()

    def forward(self, values: torch.Tensor) -> Any:
        return self.layers(values)


def sequential() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))


@torch.no_grad()
def evaluate(each: nn.Module, _model: nn.Module) -> None:
    each.eval()
    for _ in range(2):
        each(VALUES)


@torch.no_grad()
def call(each: nn.Module, _model: nn.Module) -> None:
    for _ in range(2):
        each(VALUES)


def evaluate_both(each: nn.Module, model: nn.Module) -> None:
    evaluate(model, model)
    evaluate(each, model)
    model.train()


def evaluate_the_model(_each: nn.Module, model: nn.Module) -> None:
    evaluate(model, model)
    model.train()


@torch.no_grad()
def follow(each: nn.Module, model: nn.Module) -> None:
    for mine, new in zip(each.parameters(), model.parameters(), strict=True):
        mine.lerp_(new, 0.1)


def never(_each: nn.Module, _model: nn.Module) -> None:
    pass


@pytest.mark.parametrize(
    ("make", "after_step", "use", "seen"),
    [
        pytest.param(Net, never, evaluate, (4, 3), id="an average that nothing updates"),
        pytest.param(Net, never, call, (4, 3), id="in eval mode from the start"),
        pytest.param(sequential, never, evaluate, (4, 3), id="a sequential"),
        pytest.param(Net, follow, evaluate, (4, 0), id="an average that follows"),
        pytest.param(Net, never, evaluate_both, (4, 0), id="a copy that the model is compared with"),
        pytest.param(Net, never, call, (1, 0), id="a teacher at each step"),
        pytest.param(Net, never, evaluate_the_model, (4, 0), id="a copy that nobody evaluates"),
        pytest.param(Net, never, evaluate, (11, 1), id="once, at the end"),
    ],
)
def test_evaluations_of_still_copies(
    capturing: Any, make: Any, after_step: Any, use: Any, seen: tuple[int, int]
) -> None:
    every, count = seen
    torch.manual_seed(0)
    model = make()
    other = copy.deepcopy(model).eval()
    with capturing(losses=1) as store:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(13):
            optimizer.zero_grad()
            functional.cross_entropy(model(VALUES), LABELS).backward()
            optimizer.step()
            after_step(other, model)
            if step % every == every - 1:
                use(other, model)
    facts = read_facts(store, "worker_0")[-1].program
    assert STILL_COPY_EVALUATIONS.of(facts) == count
    assert STILL_COPY_LINE.of(facts).startswith("test_still_copies.py:") is bool(count)
