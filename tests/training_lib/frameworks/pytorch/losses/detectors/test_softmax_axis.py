"""A softmax over an axis that its weights are not summed over; none where it is the right one, or turned between."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.frameworks.pytorch.losses.description import UNNAMED
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.detectors.softmax_axis import other_axis

torch.set_num_threads(1)
HEADS, LENGTH, WIDTH = 3, 6, 8
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / WIDTH**0.5


def over(axis: int, *, dropout: float = 0.0) -> Attention:
    return lambda q, k, v: functional.dropout(scores(q, k).softmax(axis), dropout) @ v


def of_second(axis: int) -> Attention:
    return lambda q, k, v: v.transpose(-2, -1) @ scores(q, k).softmax(axis)


def turned(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(q, k).softmax(-2).transpose(-2, -1) @ v


def of_slots(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = scores(q, k).softmax(-2)
    return (weights / weights.sum(-1, keepdim=True)) @ v


def by_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bhij,bhjd->bhid", scores(q, k).softmax(-1), v)


def of_one_query(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(q[..., :1, :], k).softmax(-2) @ v


def of_features(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.softmax(-1) @ (k.softmax(-2).transpose(-2, -1) @ v)


def of_torch(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v)


def without(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q + k + v).softmax(0)


@pytest.mark.parametrize(
    ("attention", "places"),
    [
        pytest.param(over(-2), LENGTH, id="queries"),
        pytest.param(over(2), LENGTH, id="queries-by-number"),
        pytest.param(over(1), HEADS, id="heads"),
        pytest.param(over(0), 2, id="samples"),
        pytest.param(over(-2, dropout=0.1), LENGTH, id="queries-with-dropout"),
        pytest.param(of_second(-1), LENGTH, id="second-matrix"),
        pytest.param(of_one_query, 1, id="one-query-that-all-keys-weigh-alike-for"),
        pytest.param(over(-1), 0, id="keys"),
        pytest.param(over(3), 0, id="keys-by-number"),
        pytest.param(over(-1, dropout=0.1), 0, id="keys-with-dropout"),
        pytest.param(of_second(-2), 0, id="second-matrix-rightly"),
        pytest.param(turned, 0, id="turned-between"),
        pytest.param(of_slots, 0, id="divided-once-more"),
        pytest.param(by_einsum, 0, id="einsum"),
        pytest.param(of_features, 0, id="linear-attention"),
        pytest.param(of_torch, 0, id="fused"),
        pytest.param(without, 0, id="no-product"),
    ],
)
def test_the_axis(attention: Attention, places: int) -> None:
    q, k, v = (nn.Parameter(torch.randn(2, HEADS, LENGTH, WIDTH)) for _ in range(3))
    loss = attention(q, k, v).pow(2).mean()
    assert other_axis(SeenLoss(loss.grad_fn, UNNAMED)) == places
    loss.backward()  # type: ignore[no-untyped-call] # torch's own omission


def test_of_a_loss_without_attention() -> None:
    loss = functional.cross_entropy(nn.Linear(4, 3)(torch.randn(8, 4)), torch.arange(8) % 3)
    assert other_axis(SeenLoss(loss.grad_fn, "CrossEntropyLoss")) == 0
