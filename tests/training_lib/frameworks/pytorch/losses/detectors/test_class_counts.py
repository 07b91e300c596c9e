"""How much each class counts in a loss: weights, and the class that it ignores."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.contracts.observations import CLASS_WEIGHTS, IGNORED_CLASS
from trackside.frameworks.pytorch.losses.description import describe_loss
from trackside.frameworks.pytorch.losses.graph import facts_of

SCORES, LABELS = torch.randn(12, 3, requires_grad=True), torch.arange(12) % 3
YES_AND_NO = torch.arange(12).remainder(2).float()
IMAGES, PLACES = torch.randn(2, 3, 4, 4, requires_grad=True), torch.randint(0, 3, (2, 4, 4))
WEIGHTS = torch.tensor([0.5, 1.0, 2.0])


def binary(pos_weight: Tensor | None) -> Tensor:
    return functional.binary_cross_entropy_with_logits(SCORES[:, 0], YES_AND_NO, pos_weight=pos_weight)


@pytest.mark.parametrize(
    ("loss", "weights", "ignored"),
    [
        pytest.param(nn.CrossEntropyLoss(WEIGHTS)(SCORES, LABELS), (0.5, 1.0, 2.0), -1, id="weights"),
        pytest.param(nn.CrossEntropyLoss(WEIGHTS)(SCORES, LABELS) / 4, (0.5, 1.0, 2.0), -1, id="accumulated"),
        pytest.param(nn.CrossEntropyLoss(WEIGHTS)(IMAGES, PLACES), (0.5, 1.0, 2.0), -1, id="images"),
        pytest.param(binary(torch.tensor(3.0)), (1.0, 3.0), -1, id="pos-weight"),
        pytest.param(binary(torch.ones(12)), (), -1, id="pos-weight-of-columns"),
        pytest.param(binary(None), (), -1, id="yes-and-no"),
        pytest.param(nn.CrossEntropyLoss()(SCORES, LABELS), (), -1, id="none"),
        pytest.param(nn.CrossEntropyLoss(ignore_index=2)(SCORES, LABELS), (), 2, id="ignored"),
        pytest.param(nn.NLLLoss(ignore_index=0)(SCORES.log_softmax(1), LABELS), (), 0, id="ignored-by-nll"),
        pytest.param(nn.CrossEntropyLoss(ignore_index=0)(IMAGES, PLACES), (), 0, id="ignored-in-images"),
        pytest.param(nn.CrossEntropyLoss(ignore_index=255)(SCORES, LABELS), (), -1, id="no-class-of-its-own"),
        pytest.param(nn.MSELoss()(SCORES[:, 0], YES_AND_NO), (), -1, id="no-classes"),
        pytest.param(SCORES.logsumexp(1).mean(), (), -1, id="by-hand"),
    ],
)
def test_what_counts(loss: Tensor, weights: tuple[float, ...], ignored: int) -> None:
    facts = facts_of(loss.grad_fn, describe_loss(loss.grad_fn))
    assert (CLASS_WEIGHTS.of(facts), IGNORED_CLASS.of(facts)) == (weights, ignored)
