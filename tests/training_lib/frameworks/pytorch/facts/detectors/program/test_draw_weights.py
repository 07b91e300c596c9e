"""Weights by which the rows of a DataLoader are drawn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

from trackside.contracts.observations import DRAW_WEIGHTS
from trackside.frameworks.pytorch.facts.detectors.program.draw_weights import ratio_of_weights
from trackside.records.model_facts import read_facts

torch.set_num_threads(1)
LABELS = [0] * 60 + [1] * 4
OF_CLASSES = [1 / 60, 1 / 4]


def weighted(weights: list[float]) -> WeightedRandomSampler:
    return WeightedRandomSampler(weights, len(weights))


@pytest.mark.parametrize(
    ("sampler", "ratio"),
    [
        pytest.param(weighted([OF_CLASSES[label] for label in LABELS]), 15.0, id="of classes"),
        pytest.param(weighted([1.0] * 8), 1.0, id="all alike"),
        pytest.param(weighted([0.0, 1.0, 1.0]), 0.0, id="rows that never come"),
        pytest.param(weighted([1.0 + row for row in range(40)]), 0.0, id="of each row"),
        pytest.param(RandomSampler(range(9)), 0.0, id="without weights"),
        pytest.param(None, 0.0, id="none"),
    ],
)
def test_the_ratio_of_weights(sampler: Any, ratio: float) -> None:
    assert ratio_of_weights(sampler) == pytest.approx(ratio)


@pytest.mark.parametrize("is_weighted", [True, False])
def test_the_sampler_of_a_training_is_noted(capturing: Any, is_weighted: bool) -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 6), torch.tensor(LABELS))
    sampler = weighted([OF_CLASSES[label] for label in LABELS]) if is_weighted else RandomSampler(data)
    with capturing(losses=1) as store:
        model = nn.Linear(6, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(2):
            for inputs, labels in DataLoader(data, batch_size=8, sampler=sampler):
                optimizer.zero_grad()
                functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
    assert DRAW_WEIGHTS.of(read_facts(store, "worker_0")[-1].program) == pytest.approx(15.0 if is_weighted else 0.0)
