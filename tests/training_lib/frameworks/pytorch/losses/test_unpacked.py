"""What a program unpacks by a hook of its own (checkpointing, offloading) is not read: it would be computed again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional

from trackside.frameworks.pytorch.losses.attention import attention_nodes, numbers_of
from trackside.frameworks.pytorch.losses.description import UNNAMED
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.detectors.dropouts import dropped_shares
from trackside.frameworks.pytorch.losses.detectors.saturation import step_share
from trackside.frameworks.pytorch.losses.target_columns import column_numbers
from trackside.frameworks.pytorch.losses.target_places import target_places
from trackside.frameworks.pytorch.losses.targets import share_beyond_reach_by_hand, targets_of_each
from trackside.frameworks.pytorch.losses.twin_views import views_of

LAYER = nn.Linear(8, 4)


def outputs(x: Tensor) -> Tensor:
    hidden = functional.dropout(torch.tanh(50 * LAYER(x)), 0.9).relu() @ LAYER.weight
    heads = hidden.view(4, 16, 1, 8)
    return LAYER(functional.scaled_dot_product_attention(heads, heads, heads).reshape(64, 8)).sigmoid()


@pytest.mark.parametrize(
    "look",
    [
        lambda end: dropped_shares(SeenLoss(end, UNNAMED)),
        lambda end: step_share(SeenLoss(end, UNNAMED)),
        targets_of_each,
        share_beyond_reach_by_hand,
        column_numbers,
        views_of,
        lambda end: numbers_of(attention_nodes(end)),
    ],
)
@pytest.mark.parametrize("loss", [lambda out: ((out - 3) ** 2).mean(), lambda out: (out - 3).abs().mean()])
def test_nothing_is_unpacked(look: Callable[[object], object], loss: Callable[[Tensor], Tensor]) -> None:
    def unpack(_: Tensor) -> Tensor:
        pytest.fail("a tensor was unpacked")

    with saved_tensors_hooks(lambda tensor: tensor, unpack):
        end = loss(outputs(torch.randn(64, 8, requires_grad=True))).grad_fn
    look(end)
    target_places(end, [torch.zeros(4, 16).long()])
