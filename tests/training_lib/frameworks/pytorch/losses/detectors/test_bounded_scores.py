"""Scores that are cosines times a factor, and how low they let cross entropy fall."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.contracts.observations import LEAST_SHARE
from trackside.frameworks.pytorch.losses.description import describe_loss
from trackside.frameworks.pytorch.losses.graph import facts_of

torch.manual_seed(0)
PAIRS = 64
FIRST, SECOND = nn.Linear(8, 16), nn.Linear(8, 16)
SCALE = nn.Parameter(torch.tensor(0.5))
CENTRES = nn.Parameter(torch.randn(10, 16))


def directions(layer: nn.Module) -> Tensor:
    return functional.normalize(layer(torch.randn(PAIRS, 8)), dim=1)


def by_hand(layer: nn.Module) -> Tensor:
    rows = layer(torch.randn(PAIRS, 8))
    return rows / rows.norm(dim=1, keepdim=True)


def cosines() -> Tensor:
    return directions(FIRST) @ directions(SECOND).T


def bound(factor: float, classes: int = PAIRS) -> float:
    return math.log(1 + (classes - 1) * math.exp(-2 * factor)) / math.log(classes)


@pytest.mark.parametrize(
    ("scores", "share"),
    [
        pytest.param(cosines, bound(1), id="cosines"),
        pytest.param(lambda: cosines() * 0.1, bound(0.1), id="times-a-tenth"),
        pytest.param(lambda: (cosines() / 0.5).T, bound(2), id="turned-over-a-half"),
        pytest.param(lambda: by_hand(FIRST) @ by_hand(SECOND).T, bound(1), id="divided-by-the-norm"),
        pytest.param(
            lambda: functional.linear(directions(FIRST), functional.normalize(CENTRES)), bound(1, 10), id="of-centres"
        ),
        pytest.param(lambda: cosines() / 0.07, bound(1 / 0.07), id="over-a-small-temperature"),
        pytest.param(lambda: cosines() * SCALE.exp(), 0.0, id="by-a-scale-that-is-learned"),
        pytest.param(lambda: cosines() + FIRST.bias.sum(), 0.0, id="with-a-bias"),
        pytest.param(lambda: FIRST(torch.randn(PAIRS, 8)) @ directions(SECOND).T, 0.0, id="one-side-alone"),
        pytest.param(lambda: FIRST(torch.randn(PAIRS, 8)), 0.0, id="of-a-layer"),
    ],
)
def test_how_low_the_loss_can_fall(scores: Callable[[], Tensor], share: float) -> None:
    found = scores()
    loss = functional.cross_entropy(found, torch.arange(PAIRS) % found.shape[1])
    facts = facts_of(loss.grad_fn, describe_loss(loss.grad_fn))
    assert LEAST_SHARE.of(facts) == pytest.approx(share)
