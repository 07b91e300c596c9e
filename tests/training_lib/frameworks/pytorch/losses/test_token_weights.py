"""The weights of tokens in the passes of a step, against the derivatives that autograd gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.frameworks.pytorch.losses.token_weights import TokenWeights, Weights

COUNTS = (2, 3, 12)
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def mean(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, labels) / len(COUNTS)


def mean_of_all(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, labels, reduction="sum") / sum(COUNTS)


def added_up(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, labels)


def with_penalty(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, labels) + 0.1 * scores.square().mean()


def squared(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return scores.square().mean()


def twice(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, labels) + functional.cross_entropy(scores * 2, labels)


def weighted(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, labels, weight=torch.rand(5) + 0.5)


def weights(loss: Loss, counts: Sequence[int] = COUNTS) -> Weights | None:
    """Return the weights of a step with so many labels in each pass, of 12 places."""
    torch.manual_seed(0)
    head, found = nn.Linear(4, 5), TokenWeights(lambda function: function)
    for count in counts:
        labels = torch.randint(0, 5, (12,))
        labels[count:] = -100
        value = loss(head(torch.randn(12, 4)), labels)
        found.follow(value.grad_fn)
        value.backward()  # type: ignore[no-untyped-call] # torch's own omission
    return found.taken()


@pytest.mark.parametrize(
    ("loss", "ratio", "total"), [(mean, 6, 1), (mean_of_all, 1, 1), (added_up, 6, 3), (with_penalty, 6, 3)]
)
def test_the_weights_of_a_step(loss: Loss, ratio: float, total: float) -> None:
    found = weights(loss)
    assert found is not None
    assert float(found.ratio) == pytest.approx(ratio, rel=1e-5)
    assert float(found.total) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("loss", [squared, twice, weighted])
def test_other_losses_have_none(loss: Loss) -> None:
    assert weights(loss) is None


def test_a_single_pass_has_none() -> None:
    assert weights(mean, (4,)) is None


def test_a_pass_without_a_label_has_no_finite_weight() -> None:
    found = weights(mean, (4, 0))
    assert found is None or not torch.isfinite(found.ratio)


def test_a_pass_that_is_broken_off_leaves_nothing_to_tell() -> None:
    found = TokenWeights(lambda function: function)
    for backward in (True, False):
        loss = added_up(nn.Linear(4, 5)(torch.randn(12, 4)), torch.randint(0, 5, (12,)))
        found.follow(loss.grad_fn)
        if backward:
            loss.backward()  # type: ignore[no-untyped-call]
    assert found.taken() is None
