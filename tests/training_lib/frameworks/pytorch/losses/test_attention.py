"""Attention from the graph of a loss: the numbers of a plain computation, whoever computes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.training_lib.frameworks.pytorch.statistics.test_readings import capturing, column, opened
from trackside.contracts.capture_request import StatisticsRequest
from trackside.contracts.run.recorded_names import ATTENTION_ENTROPY, ATTENTION_LOGIT
from trackside.frameworks.pytorch.losses.attention import AttentionNumbers, attention_nodes, numbers_of

ROWS, HEADS, LENGTH, WIDTH = 2, 4, 10, 8
CAUSAL = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()


def oracle(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None) -> tuple[float, float]:
    """Return the largest logit and the mean relative entropy of all rows with a choice."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    logits = (q.double() @ k.double().transpose(-1, -2) / math.sqrt(q.shape[-1])).detach()
    allowed = torch.ones_like(logits, dtype=torch.bool) if mask is None else mask.expand_as(logits)
    shares = logits.masked_fill(~allowed, -math.inf).softmax(-1)
    entropies, counts = torch.special.entr(shares).sum(-1), allowed.sum(-1)
    chosen = counts > 1
    return float(logits[allowed].abs().max()), float((entropies[chosen] / counts[chosen].log()).mean())


def of_loss(loss: torch.Tensor) -> AttentionNumbers | None:
    return numbers_of(attention_nodes(loss.grad_fn))


def made(heads: int = HEADS) -> torch.Tensor:
    return (3 * torch.randn(ROWS, heads, LENGTH, WIDTH)).requires_grad_()


@pytest.mark.parametrize(
    ("key_heads", "mask", "arguments"),
    [
        pytest.param(HEADS, None, {}, id="plain"),
        pytest.param(HEADS, CAUSAL, {"is_causal": True}, id="causal"),
        pytest.param(HEADS, CAUSAL, {"attn_mask": CAUSAL}, id="a-mask-of-flags"),
        pytest.param(
            HEADS, CAUSAL, {"attn_mask": torch.zeros(LENGTH, LENGTH).masked_fill(~CAUSAL, -math.inf)}, id="added-mask"
        ),
        pytest.param(HEADS, CAUSAL, {"is_causal": True, "dropout_p": 0.1}, id="dropout"),
        pytest.param(HEADS, CAUSAL, {"attn_mask": CAUSAL, "dropout_p": 0.1}, id="dropout-and-a-mask"),
        pytest.param(1, None, {"enable_gqa": True}, id="one-head-of-keys"),
        pytest.param(2, CAUSAL, {"enable_gqa": True, "is_causal": True}, id="shared-keys-causal"),
    ],
)
def test_fused(key_heads: int, mask: torch.Tensor | None, arguments: dict[str, object]) -> None:
    torch.manual_seed(0)
    q, k, v = made(), made(key_heads), made(key_heads)
    found = of_loss(functional.scaled_dot_product_attention(q, k, v, **arguments).pow(2).mean())  # type: ignore[arg-type]
    assert found is not None
    assert (found.largest_logit.item(), found.entropy.item()) == pytest.approx(oracle(q, k, mask), rel=1e-4)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("is_masked", [False, True])
def test_by_hand(*, is_masked: bool, has_bias: bool) -> None:
    torch.manual_seed(0)
    q, k, v = made(), made(), made()
    logits = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(WIDTH))
    if has_bias:
        logits = logits + torch.zeros(1, HEADS, LENGTH, LENGTH, requires_grad=True)
    if is_masked:
        logits = logits.masked_fill(~CAUSAL, -math.inf)
    found = of_loss((functional.dropout(logits.softmax(-1), 0.1) @ v).pow(2).mean())
    assert found is not None
    wanted = oracle(q, k, CAUSAL if is_masked else None)
    assert (found.largest_logit.item(), found.entropy.item()) == pytest.approx(wanted, rel=1e-4)


def plus(diagonal: int) -> torch.Tensor:
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(diagonal)


PREFIX = CAUSAL.clone()
PREFIX[:, :4] = True


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize(
    ("mask", "ahead"),
    [
        pytest.param(None, 1.0, id="no-mask"),
        pytest.param(plus(1), 1.0, id="a-mask-that-is-one-place-off"),
        pytest.param(CAUSAL.T, 1.0, id="upside-down"),
        pytest.param(PREFIX, 3 / (LENGTH - 1), id="a-prefix-that-sees-itself"),
        pytest.param(CAUSAL, 0.0, id="causal"),
        pytest.param(plus(-1) | torch.eye(LENGTH, dtype=torch.bool), 0.0, id="causal-and-itself"),
        pytest.param(CAUSAL & ~plus(-4), 0.0, id="a-window"),
    ],
)
def test_rows_that_see_the_next_place(mask: torch.Tensor | None, ahead: float, *, is_fused: bool) -> None:
    q, k, v = made(), made(), made()
    if is_fused:
        output = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    else:
        logits = q @ k.transpose(-2, -1) / math.sqrt(WIDTH)
        output = (logits if mask is None else logits.masked_fill(~mask, -1e9)).softmax(-1) @ v
    found = of_loss(output.pow(2).mean())
    assert found is not None
    assert found.ahead.item() == pytest.approx(ahead)


def test_no_row_of_attention_to_another_sequence_sees_ahead() -> None:
    q, k, v = made(), made()[:, :, :7], made()[:, :, :7]
    found = of_loss(functional.scaled_dot_product_attention(q, k, v).pow(2).mean())
    assert found is not None
    assert found.ahead.item() == 0


@pytest.mark.parametrize("form", ["bhid,bhjd->bhij", "bhid,bhjd->bhji"])
def test_by_einsum(form: str) -> None:
    torch.manual_seed(0)
    q, k, v = made(), made(), made()
    logits = torch.einsum(form, q, k).masked_fill(~CAUSAL, -math.inf) / math.sqrt(WIDTH)
    found = of_loss(torch.einsum("bhij,bhjd->bhid", logits.softmax(-1), v).pow(2).mean())
    if found is not None:  # the numbers are right, or there are none
        wanted = oracle(q, k, CAUSAL) if form.endswith("ij") else oracle(k, q, CAUSAL)
        assert (found.largest_logit.item(), found.entropy.item()) == pytest.approx(wanted, rel=1e-4)
    assert found is not None or form.endswith("ji")


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_module_of_torch(*, need_weights: bool) -> None:
    torch.manual_seed(0)
    module, x = nn.MultiheadAttention(WIDTH * HEADS, HEADS, batch_first=True), torch.randn(ROWS, LENGTH, WIDTH * HEADS)
    found = of_loss(module(x, x, x, need_weights=need_weights)[0].pow(2).mean())
    assert found is not None
    q, k, _ = functional.linear(x, module.in_proj_weight, module.in_proj_bias).chunk(3, -1)
    q, k = (each.view(ROWS, LENGTH, HEADS, WIDTH).transpose(1, 2) for each in (q, k))
    assert (found.largest_logit.item(), found.entropy.item()) == pytest.approx(oracle(q, k, None), rel=1e-4)


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda: functional.cross_entropy(made()[0, 0], torch.arange(LENGTH) % WIDTH), id="classes"),
        pytest.param(lambda: torch.sum(functional.softmax(nn.Linear(WIDTH, 4)(made()), -1) ** 2), id="a-router"),
        pytest.param(lambda: made().softmax(-1).pow(2).mean(), id="a-softmax"),
    ],
)
def test_no_attention(loss: Callable[[], torch.Tensor]) -> None:
    assert of_loss(loss()) is None


class Block(nn.Module):
    """Attention, with or without checkpointing."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.calls = 0

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        out: torch.Tensor = self.attention(x, x, x, need_weights=False)[0]
        return out


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_trainings(tmp_path: Path, *, is_checkpointed: bool) -> None:
    """Checkpointed activations are not computed once more for us; the weights are those of a training on its own."""

    def train() -> Block:
        torch.manual_seed(0)
        model = Block()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(40):
            x = torch.randn(3, 5, 16)
            out = checkpoint(model.attend, x, use_reentrant=False) if is_checkpointed else model.attend(x)
            optimizer.zero_grad()
            functional.mse_loss(out, x).backward()
            optimizer.step()
        return model

    alone = train()
    with capturing(tmp_path, statistics=StatisticsRequest(budget=1.0)):
        watched = train()
    assert watched.calls == alone.calls
    for one, other in zip(alone.parameters(), watched.parameters(), strict=True):
        assert torch.equal(one, other)
    logits, entropies = (column(opened(tmp_path), name, "mean") for name in (ATTENTION_LOGIT, ATTENTION_ENTROPY))
    assert sorted(logits) == sorted(entropies) == ([] if is_checkpointed else [*range(1, 40)])
