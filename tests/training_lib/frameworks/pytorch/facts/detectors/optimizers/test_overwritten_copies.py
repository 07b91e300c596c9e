"""Trained copies that the script overwrites; silent without gradients, without a copy, and for clones of a layer."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trackside.contracts.observations import OVERWRITTEN_COPIES
from trackside.records.model_facts import read_facts

torch.set_num_threads(1)
Update = Callable[[nn.Module, nn.Module, int], None]


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def never(_target: nn.Module, _model: nn.Module, _step: int) -> None:
    pass


def always(target: nn.Module, model: nn.Module, _: int) -> None:
    target.load_state_dict(model.state_dict())


def at_times(target: nn.Module, model: nn.Module, step: int) -> None:
    if step % 10 == 9:
        target.load_state_dict(model.state_dict())


def slowly(target: nn.Module, model: nn.Module, _: int) -> None:
    for mine, new in zip(target.parameters(), model.parameters(), strict=True):
        mine.data.lerp_(new.data, 0.05)


def clipped(target: nn.Module, model: nn.Module, _: int) -> None:
    for each in itertools.chain(target.parameters(), model.parameters()):
        each.data.clamp_(-0.1, 0.1)


def wanted_of(target: nn.Module, rows: Tensor, *, has_gradient: bool) -> Tensor:
    with torch.set_grad_enabled(has_gradient):
        found: Tensor = 0.9 * target(rows).amax(1, keepdim=True) + rows[:, :1]
        return found


@pytest.mark.parametrize(
    ("update", "is_alike", "has_gradient", "found"),
    [
        pytest.param(slowly, True, True, True, id="a slow average"),
        pytest.param(always, True, True, True, id="a copy at each step"),
        pytest.param(at_times, True, True, True, id="a copy now and then"),
        pytest.param(slowly, True, False, False, id="without gradients"),
        pytest.param(slowly, False, True, False, id="another network"),
        pytest.param(never, True, True, False, id="two that begin alike"),
        pytest.param(clipped, True, True, False, id="weights of both are clipped"),
    ],
)
def test_copies(capturing: Any, update: Update, *, is_alike: bool, has_gradient: bool, found: bool) -> None:
    torch.manual_seed(0)
    model = network()
    target = copy.deepcopy(model) if is_alike else network()
    with capturing(losses=1) as store:
        optimizer = torch.optim.Adam([*model.parameters(), *target.parameters()], 0.01)
        for step in range(32):
            rows, then = torch.randn(16, 4), torch.randn(16, 4)
            wanted = wanted_of(target, then, has_gradient=has_gradient)
            loss = nn.functional.mse_loss(model(rows)[:, :1], wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            update(target, model, step)
    facts = read_facts(store, "worker_0")[-1]
    assert bool(OVERWRITTEN_COPIES.of(facts.optimizers[0])) == found


def test_clones_of_a_layer_are_trained(capturing: Any) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 3)
    with capturing(losses=1) as store:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.randn(4, 5, 8)).square().mean().backward()
            optimizer.step()
    assert not OVERWRITTEN_COPIES.of(read_facts(store, "worker_0")[-1].optimizers[0])
