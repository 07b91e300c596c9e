"""The shares of values that dropouts before a loss drop, read from its graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.frameworks.pytorch.losses.description import UNNAMED
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.detectors.dropouts import dropped_shares, share_of_mask

HEAD = nn.Linear(32, 3)


def lstm(hidden: Tensor) -> Tensor:
    return HEAD(nn.LSTM(32, 32, 2, dropout=0.8)(hidden)[0])


def attention(hidden: Tensor) -> Tensor:
    heads = hidden.view(4, 16, 4, 8)
    return HEAD(functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.95).reshape(64, 32))


def with_mean_over_some(hidden: Tensor) -> Tensor:
    taken = (torch.arange(64) % 10 == 0).float()[:, None].expand(64, 3)
    return HEAD(hidden) * (taken / taken.mean())


@pytest.mark.parametrize(
    ("output", "shares"),
    [
        pytest.param(lambda x: HEAD(nn.Dropout(0.95)(x)), [0.95], id="a-module"),
        pytest.param(lambda x: HEAD(functional.dropout(x, 0.9)), [0.9], id="a-function"),
        pytest.param(lambda x: HEAD(nn.Dropout2d(0.8)(x.view(64, 32, 1, 1)).flatten(1)), [0.8], id="channels"),
        pytest.param(lambda x: HEAD(functional.dropout(HEAD(functional.dropout(x, 0.1)) @ HEAD.weight, 0.5)),
                     [0.5, 0.1], id="two"),
        pytest.param(lstm, [0.8], id="between-recurrent-layers"),
        pytest.param(attention, [0.95], id="attention"),
        pytest.param(lambda x: nn.TransformerEncoderLayer(32, 4, 64, dropout=0.9)(x) @ HEAD.weight.T, [0.9] * 4,
                     id="a-transformer"),
        pytest.param(lambda x: HEAD(nn.Dropout(0.9).eval()(x)), [], id="in-eval-mode"),
        pytest.param(lambda x: HEAD(functional.dropout(x, 0.0)), [], id="none-is-dropped"),
        pytest.param(lambda x: functional.dropout(HEAD(x), 0.9), [], id="behind-the-last-layer"),
        pytest.param(with_mean_over_some, [], id="a-mean-over-some-samples"),
        pytest.param(lambda x: HEAD(x * (torch.rand(64, 32) < 0.2).float()), [], id="a-mask-of-inputs"),
        pytest.param(lambda x: HEAD(x * torch.rand(64, 32)), [], id="another-factor"),
        pytest.param(lambda x: HEAD(x * 3), [], id="a-number"),
        pytest.param(HEAD, [], id="no-dropout"),
    ],
)  # fmt: skip
def test_shares(output: Callable[[Tensor], Tensor], shares: list[float]) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(64, 32, requires_grad=True)
    assert dropped_shares(SeenLoss(output(hidden).square().mean().grad_fn, UNNAMED)) == pytest.approx(shares)


@pytest.mark.parametrize(
    ("factor", "share"),
    [
        pytest.param(functional.dropout(torch.ones(5000), 0.3), 0.3, id="a-mask"),
        pytest.param(functional.dropout(torch.ones(5000), 0.97).half(), 0.97, id="in-half-precision"),
        pytest.param(functional.dropout(torch.ones(32), 0.5), 0.0, id="too-few-values"),
        pytest.param(torch.tensor([0.0, 2.0, 2.0, 2.0] * 500), 0.0, id="fewer-zeros-than-its-scale-tells"),
        pytest.param(torch.zeros(500), 0.0, id="zeros"),
        pytest.param(torch.full((500,), torch.inf), 0.0, id="not-finite"),
    ],
)
def test_share_of_a_mask(factor: Tensor, share: float) -> None:
    assert share_of_mask(factor) == pytest.approx(share, rel=2e-3)


def test_what_was_written_over_is_an_error() -> None:
    hidden = torch.randn(64, 32, requires_grad=True) * 1
    mask = functional.dropout(torch.ones(64, 32), 0.5)
    loss = HEAD(hidden * mask).sum()
    mask.add_(1)
    with pytest.raises(RuntimeError):
        dropped_shares(SeenLoss(loss.grad_fn, UNNAMED))
