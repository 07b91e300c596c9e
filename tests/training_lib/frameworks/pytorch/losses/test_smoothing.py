"""Label smoothing that is read from the graph of cross entropy, and the least loss that it leaves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from trackside.frameworks.pytorch.losses.smoothing import least_share, smoothing_of

SCORES = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
LABELS = torch.arange(8) % 5


@pytest.mark.parametrize(
    ("loss", "smoothing"),
    [
        pytest.param(functional.cross_entropy(SCORES, LABELS, label_smoothing=0.9), 0.9, id="much"),
        pytest.param(functional.cross_entropy(SCORES, LABELS, label_smoothing=0.1), 0.1, id="little"),
        pytest.param(functional.cross_entropy(SCORES, LABELS, label_smoothing=0.3) / 4, 0.3, id="behind a factor"),
        pytest.param(functional.cross_entropy(SCORES, LABELS), 0.0, id="none"),
        pytest.param(functional.cross_entropy(SCORES, LABELS) + SCORES.square().mean(), 0.0, id="a sum"),
        pytest.param(functional.mse_loss(SCORES, torch.zeros(8, 5)), 0.0, id="another loss"),
    ],
)
def test_smoothing(loss: Tensor, smoothing: float) -> None:
    assert smoothing_of(loss.grad_fn) == pytest.approx(smoothing)


@pytest.mark.parametrize(
    ("smoothing", "classes"), [(0.9, 5), (0.1, 10), (0.5, 2), (0.2, 1000)], ids=["much", "usual", "two", "many"]
)
def test_least_share(smoothing: float, classes: int) -> None:
    target = torch.full((classes,), smoothing / classes, dtype=torch.float64)
    target[0] += 1 - smoothing
    least = functional.cross_entropy(target.log()[None], torch.tensor([0]), label_smoothing=smoothing)
    equal = functional.cross_entropy(torch.zeros(1, classes, dtype=torch.float64), torch.tensor([0]))
    assert least_share(smoothing, classes) == pytest.approx(float(least / equal))


@pytest.mark.parametrize(
    ("smoothing", "classes"), [(0.0, 5), (0.5, 1), (2.0, 5)], ids=["none", "one class", "no share"]
)
def test_no_bound(smoothing: float, classes: int) -> None:
    assert least_share(smoothing, classes) == 0
