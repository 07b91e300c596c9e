"""Activation checkpointing computes the forward pass twice; each thing is saved once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS


class Net(nn.Module):
    """Two blocks, recomputed or not."""

    def __init__(self, *, use_reentrant: bool | None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.4), nn.ReLU()) for _ in range(2))
        self.head = nn.Linear(4, 2)
        self.use_reentrant = use_reentrant

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = values.requires_grad_()
        for block in self.blocks:
            again = self.use_reentrant
            values = block(values) if again is None else checkpoint(block, values, use_reentrant=again)
        outputs = self.head(values)
        assert isinstance(outputs, torch.Tensor)
        return outputs


def train(*, use_reentrant: bool | None) -> None:
    torch.manual_seed(0)
    model = Net(use_reentrant=use_reentrant)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        functional.cross_entropy(model(torch.randn(3, 4)), torch.tensor([0, 1, 1])).backward()
        optimizer.step()


@pytest.mark.parametrize("use_reentrant", [pytest.param(False, id="non-reentrant"), pytest.param(True, id="reentrant")])
def test_everything_is_saved_once_and_as_without_recomputation(use_reentrant: bool, watching: Any) -> None:
    everything = dict.fromkeys(BUILT_IN_COLLECTIONS, 1)
    with watching(**everything) as expected:
        train(use_reentrant=None)
    with watching(**everything) as saved:
        train(use_reentrant=use_reentrant)
    assert list(saved()) == [0, 1]
    for step, found in expected().items():
        # The first of the two reentrant passes has no graph, and the second is not looked at.
        is_seen = {name: not (use_reentrant and name.startswith("activation_gradient/blocks")) for name in found}
        tensors = {name: value for name, value in found.items() if is_seen[name]}
        assert "Net_output_0" in tensors
        assert saved()[step].keys() == tensors.keys()
        for name, value in tensors.items():
            np.testing.assert_allclose(saved()[step][name], value, rtol=1e-6, err_msg=name)


def test_a_loss_within_a_checkpoint_is_one_loss(watching: Any) -> None:
    """Reentrant checkpointing calls `backward` from within `backward`: that one is not the loss's."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watching(losses=1) as saved:
        outputs = checkpoint_sequential(model, 2, torch.ones(3, 4, requires_grad=True), use_reentrant=True)
        functional.cross_entropy(outputs, torch.tensor([0, 1, 1])).backward()
        optimizer.step()
    assert list(saved()[0]) == ["CrossEntropyLoss_output_0"]
