"""A copy of the model, such as an average of its weights, evaluated with the running statistics it was born with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, update_bn

from trackside.contracts.model_facts import ProgramFacts
from trackside.contracts.observations import STALE_COPY_EVALUATIONS, STALE_COPY_LINE
from trackside.records.model_facts import read_facts

torch.set_num_threads(1)
VALUES, LABELS = torch.randn(16, 6, generator=torch.Generator().manual_seed(0)) + 1, torch.arange(16) % 3


class Net(nn.Module):
    """A class of the script's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = sequential()

    def forward(self, values: torch.Tensor) -> Any:
        return self.layers(values)


class Average(nn.Module):
    """A holder of the copy."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(model)

    def forward(self, values: torch.Tensor) -> Any:
        return self.module(values)


def sequential() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def without_norms() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


@torch.no_grad()
def follow(average: nn.Module, model: nn.Module) -> None:
    for mine, new in zip(average.parameters(), model.parameters(), strict=True):
        mine.lerp_(new, 0.1)


def follow_with_buffers(average: nn.Module, model: nn.Module) -> None:
    follow(average, model)
    for mine, new in zip(average.buffers(), model.buffers(), strict=True):
        mine.copy_(new)


def update(average: AveragedModel, model: nn.Module) -> None:
    average.update_parameters(model)


def rest(_average: nn.Module, _model: nn.Module) -> None:
    """A fixed random network, as of a distillation."""


def in_eval_mode(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).eval()


def of_buffers_too(model: nn.Module) -> nn.Module:
    return AveragedModel(model, use_buffers=True)


@torch.no_grad()
def evaluate(average: nn.Module, _model: nn.Module) -> None:
    average.eval()
    average(VALUES)


@torch.no_grad()
def call(average: nn.Module, _model: nn.Module) -> None:
    average(VALUES)


@torch.no_grad()
def evaluate_both(average: nn.Module, model: nn.Module) -> None:
    for each in (model, average):
        each.eval()
        each(VALUES)
    model.train()


def estimate_first(average: nn.Module, model: nn.Module) -> None:
    update_bn([VALUES], average)
    evaluate(average, model)


def never(_average: nn.Module, _model: nn.Module) -> None:
    pass


def program(capturing: Any, make: Callable[[], nn.Module], average_of: Any, after_step: Any, use: Any) -> ProgramFacts:
    torch.manual_seed(0)
    model = make()
    average = average_of(model)
    with capturing(losses=1) as store:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(12):
            optimizer.zero_grad()
            functional.cross_entropy(model(VALUES), LABELS).backward()
            optimizer.step()
            after_step(average, model)
            if step % 4 == 3:
                use(average, model)
    return read_facts(store, "worker_0")[-1].program


STALE = [
    pytest.param(sequential, in_eval_mode, follow, call, id="a copy updated by hand, in eval mode from the start"),
    pytest.param(Net, copy.deepcopy, follow, evaluate, id="a class of the script's own, put into eval mode"),
    pytest.param(sequential, copy.deepcopy, follow, evaluate, id="a sequential, put into eval mode"),
    pytest.param(Net, Average, follow, evaluate, id="an average within a module"),
    pytest.param(sequential, Average, follow, evaluate_both, id="an average of a sequential, beside the model"),
]
FRESH = [
    pytest.param(sequential, in_eval_mode, follow_with_buffers, call, id="buffers are copied"),
    pytest.param(Net, AveragedModel, update, evaluate, id="torch's average, which copies them"),
    pytest.param(Net, of_buffers_too, update, evaluate, id="torch's average with buffers"),
    pytest.param(Net, AveragedModel, update, estimate_first, id="statistics are estimated first"),
    pytest.param(Net, AveragedModel, update, never, id="it is not used"),
    pytest.param(Net, copy.deepcopy, follow, call, id="a teacher in training mode"),
    pytest.param(Net, in_eval_mode, rest, evaluate, id="a fixed random network"),
    pytest.param(without_norms, in_eval_mode, follow, evaluate, id="no running statistics"),
]


@pytest.mark.parametrize(("make", "average_of", "after_step", "use"), STALE)
def test_stale_copies_are_counted(capturing: Any, make: Any, average_of: Any, after_step: Any, use: Any) -> None:
    facts = program(capturing, make, average_of, after_step, use)
    assert STALE_COPY_EVALUATIONS.of(facts) == 3
    assert STALE_COPY_LINE.of(facts).startswith("test_stale_copies.py:")


@pytest.mark.parametrize(("make", "average_of", "after_step", "use"), FRESH)
def test_what_is_right_is_not_counted(capturing: Any, make: Any, average_of: Any, after_step: Any, use: Any) -> None:
    assert STALE_COPY_EVALUATIONS.of(program(capturing, make, average_of, after_step, use)) == 0
