"""Target networks that nothing updates; silent for those that follow, references, teachers and random networks."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.contracts.observations import STILL_TARGET_STEPS
from trackside.records.model_facts import read_facts

torch.set_num_threads(1)
STEPS = 215


class Agent(nn.Module):
    """A model that holds its target."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = network(), network()


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 2))


def trained_network() -> nn.Sequential:
    found = network()
    with torch.no_grad():
        for each in found.parameters():
            each.add_(torch.randn_like(each), alpha=3)
    return found


def alike(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model)


def of_its_own(_: nn.Module) -> nn.Module:
    return network()


def teacher(_: nn.Module) -> nn.Module:
    return trained_network()


def never(_target: nn.Module, _model: nn.Module, _step: int) -> None:
    pass


def seldom(target: nn.Module, model: nn.Module, step: int) -> None:
    if step % 100 == 99:
        target.load_state_dict(model.state_dict())


@torch.no_grad()
def slowly(target: nn.Module, model: nn.Module, _: int) -> None:
    for mine, new in zip(target.parameters(), model.parameters(), strict=True):
        mine.lerp_(new, 0.05)


@pytest.mark.parametrize(
    ("target_of", "update", "reads_the_same", "steps"),
    [
        pytest.param(alike, never, False, STEPS, id="never synchronised"),
        pytest.param(of_its_own, never, False, STEPS, id="nor made alike"),
        pytest.param(alike, seldom, False, STEPS, id="synchronised seldom"),
        pytest.param(alike, slowly, False, STEPS, id="a slow average"),
        pytest.param(alike, never, True, STEPS, id="a reference"),
        pytest.param(of_its_own, never, True, STEPS, id="a random network"),
        pytest.param(teacher, never, False, STEPS, id="a teacher of another view"),
        pytest.param(alike, never, False, 150, id="too early to tell"),
    ],
)
@pytest.mark.parametrize("is_held", [False, True], ids=["beside", "within"])
def test_targets(
    capturing: Any, target_of: Any, update: Any, *, reads_the_same: bool, steps: int, is_held: bool
) -> None:
    torch.manual_seed(0)
    agent = Agent()
    model = agent.online if is_held else network()
    target = target_of(model)
    agent.target = target if is_held else agent.target
    if not is_held:
        del agent
    with capturing(losses=1, model_inputs=10) as store:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(steps):
            now, then = torch.randn(8, 20), torch.randn(8, 20)
            with torch.no_grad():
                wanted: Tensor = target(now if reads_the_same else then)
            loss = functional.mse_loss(model(now), 1 + 0.9 * wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            update(target, model, step)
    facts = read_facts(store, "worker_0")[-1].program
    is_still = update is never and not reads_the_same and target_of is not teacher and steps == STEPS
    assert STILL_TARGET_STEPS.of(facts) == (200 if is_still else 0)
