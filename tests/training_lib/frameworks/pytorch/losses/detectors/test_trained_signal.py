"""Targets and advantages with a gradient; silent where they are numbers, and where two sides are trained on purpose."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.contracts.observations import TRAINED_SIGNAL
from trackside.frameworks.pytorch.losses.description import describe_loss
from trackside.frameworks.pytorch.losses.graph import facts_of

torch.set_num_threads(1)
ROWS, WIDTH, ACTIONS = 12, 3, 2


def net(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, outputs))


Q, V, POLICY = net(ACTIONS), net(1), net(ACTIONS)
OLD = copy.deepcopy(Q)
STATES, NEXT = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
REWARDS, GOES_ON = torch.randn(ROWS), (torch.rand(ROWS) > 0.1).float()
CHOSEN = torch.randint(ACTIONS, (ROWS, 1))


def of_chosen() -> Tensor:
    found: Tensor = Q(STATES).gather(1, CHOSEN).squeeze(1)
    return found


def best(model: nn.Module = Q) -> Tensor:
    found: Tensor = model(NEXT).max(1).values
    return found


def likelihood() -> Tensor:
    return torch.distributions.Categorical(logits=POLICY(STATES)).log_prob(CHOSEN.squeeze(1))


def values(states: Tensor = STATES) -> Tensor:
    found: Tensor = V(states).squeeze(1)
    return found


def views() -> Tensor:
    one, other = Q(STATES), Q(NEXT)
    return functional.mse_loss(one, other) + functional.relu(1 - one.std(0)).mean()


def residual() -> Tensor:
    places = torch.rand(ROWS, WIDTH, requires_grad=True)
    found = V(places)
    slope = torch.autograd.grad(found.sum(), places, create_graph=True)[0][:, :1]
    return functional.mse_loss(slope, -2 * found + places[:, :1].detach())


def entropy() -> Tensor:
    scores = POLICY(STATES).log_softmax(1)
    return (scores.exp() * scores).sum(1).mean()


def weighted_by_uncertainty() -> Tensor:
    spread = V(STATES).squeeze(1)
    return ((-spread).exp() * -likelihood() + spread).mean()


SIGNALS = [
    pytest.param(lambda: functional.mse_loss(of_chosen(), REWARDS + 0.9 * best()), "target", id="of Q-learning"),
    pytest.param(
        lambda: functional.smooth_l1_loss(of_chosen(), 0.9 * GOES_ON * best() + REWARDS), "target", id="of Huber"
    ),
    pytest.param(lambda: (REWARDS + GOES_ON * 0.9 * values(NEXT) - values()).pow(2).mean(), "target", id="of values"),
    pytest.param(lambda: -(likelihood() * (REWARDS - values())).mean(), "advantage", id="with a baseline"),
    pytest.param(
        lambda: -((likelihood() - REWARDS).exp() * (REWARDS - values())).mean(), "advantage", id="with a ratio"
    ),
    pytest.param(lambda: functional.mse_loss(of_chosen(), (REWARDS + 0.9 * best()).detach()), "", id="detached"),
    pytest.param(lambda: functional.mse_loss(of_chosen(), REWARDS + 0.9 * best().detach()), "", id="detached within"),
    pytest.param(lambda: functional.mse_loss(of_chosen(), REWARDS + 0.9 * best(OLD)), "", id="another network"),
    pytest.param(lambda: functional.mse_loss(of_chosen(), best()), "", id="nothing is added"),
    pytest.param(lambda: -(likelihood() * (REWARDS - values()).detach()).mean(), "", id="a detached advantage"),
    pytest.param(lambda: functional.mse_loss(values(), REWARDS), "", id="returns"),
    pytest.param(views, "", id="two views"),
    pytest.param(residual, "", id="a differential equation"),
    pytest.param(entropy, "", id="an entropy"),
    pytest.param(weighted_by_uncertainty, "", id="weights of uncertainty"),
]


@pytest.mark.parametrize(("loss", "signal"), SIGNALS)
def test_signals(loss: Callable[[], Tensor], signal: str) -> None:
    torch.manual_seed(0)
    end = loss().grad_fn
    assert TRAINED_SIGNAL.of(facts_of(end, describe_loss(end))) == signal


@pytest.mark.parametrize(("loss", "signal"), [each for each in SIGNALS if each.id in {"of Q-learning", "returns"}])
def test_signals_within_a_sum(loss: Callable[[], Tensor], signal: str) -> None:
    torch.manual_seed(0)
    end = (0.5 * loss() + 0.01 * entropy()).grad_fn
    assert TRAINED_SIGNAL.of(facts_of(end, describe_loss(end))) == signal
