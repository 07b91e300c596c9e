"""Functions without a slope before parameters; silent where another way leads to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from trackside.contracts.observations import FLAT_FUNCTION
from trackside.frameworks.pytorch.losses.description import describe_loss
from trackside.frameworks.pytorch.losses.graph import facts_of

torch.set_num_threads(1)
X, Y = torch.randn(6, 3), torch.randn(6, 2)
WEIGHT, OTHER, BIAS = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.randn(2))


class Straight(torch.autograd.Function):
    """Rounds, with the gradient of the identity."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        return gradients[0]


def of(weight: Tensor, x: Tensor = X) -> Tensor:
    return nn.functional.mse_loss(nn.functional.linear(x, weight, BIAS), Y)


CASES: dict[str, tuple[Callable[[], Tensor], tuple[str, ...]]] = {
    "weights that are rounded": (lambda: of((WEIGHT * 4).round() / 4), ("round", "(2, 3)")),
    "to decimals": (lambda: of(WEIGHT.round(decimals=2)), ("round", "(2, 3)")),
    "signs": (lambda: of(WEIGHT.sign()), ("sign", "(2, 3)")),
    "a layer before a step": (lambda: of(WEIGHT, (X @ OTHER).floor()), ("floor", "(3, 3)")),
    "behind two": (lambda: of(WEIGHT.ceil().trunc()), ("trunc", "(2, 3)")),
    "plain": (lambda: of(WEIGHT), ()),
    "straight through": (lambda: of(WEIGHT + (WEIGHT.round() - WEIGHT).detach()), ()),
    "a gradient of its own": (lambda: of(Straight.apply(WEIGHT)), ()),
    "another term reaches them": (lambda: of(WEIGHT.sign()) + WEIGHT.square().sum(), ()),
    "the rest of a floor": (lambda: of(WEIGHT - WEIGHT.floor()), ()),
    "data is rounded": (lambda: of(WEIGHT, X.round()), ()),
    "clamped": (lambda: of(WEIGHT.clamp(-1, 1)), ()),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_graph_shows(name: str) -> None:
    loss, expected = CASES[name]
    end = loss().grad_fn
    assert FLAT_FUNCTION.of(facts_of(end, describe_loss(end))) == expected
