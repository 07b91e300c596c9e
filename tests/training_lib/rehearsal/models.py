"""Models that are right, of many kinds: no probe may find a fault in any of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import nn
from torch.nn import functional

from tests.training_lib.rehearsal.rehearsing import (
    CLASSES,
    ROWS,
    TOKENS,
    WIDTH,
    WORDS,
    Loss,
    classify,
    sentences,
    table,
)


class Case(NamedTuple):
    """A model to build, its loss, and its batches."""

    build: Callable[[], nn.Module]
    loss: Loss = classify
    batches: Sequence[tuple[torch.Tensor, torch.Tensor]] | None = None


class Tied(nn.Module):
    """A language model with its embedding as last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 8)
        self.inner = nn.Linear(8, 8)
        self.head = nn.Linear(8, WORDS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.inner(self.embedding(tokens))))


class Recurrent(nn.Module):
    """A recurrent classifier of sequences, the batch first or second."""

    def __init__(self, *, batch_first: bool = True) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.embedding = nn.Embedding(WORDS, 8)
        self.cell = nn.LSTM(8, 8, batch_first=batch_first)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(self.embedding(tokens))
        return self.head(states.mean(1 if self.batch_first else 0))


class Attention(nn.Module):
    """An encoder with attention; `positions` and `causal` make it know the order."""

    def __init__(
        self, *, positions: bool = True, causal: bool = False, pooled: bool = True, reads_first: bool = False
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 8)
        self.positions = nn.Embedding(TOKENS, 8) if positions else None
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.1)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, CLASSES)
        self.causal, self.pooled, self.reads_first = causal, pooled, reads_first

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        inner = self.embedding(tokens) * 3
        if self.positions is not None:
            inner = inner + self.positions.weight
        mask = nn.Transformer.generate_square_subsequent_mask(TOKENS) if self.causal else None
        found, _ = self.attention(inner, inner, inner, attn_mask=mask, need_weights=False)
        inner = self.norm(inner + found)
        if self.reads_first:
            return self.head(inner[:, 0])
        return self.head(inner.mean(1)) if self.pooled else self.head(inner)


class Bag(nn.Module):
    """A bag of words: the order of tokens plays no part, on purpose."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens).mean(1))


class Contrastive(nn.Module):
    """Two towers and a table of all samples against all."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4)

    def forward(self, values: torch.Tensor) -> dict[str, torch.Tensor]:
        one = functional.normalize(self.one(values), dim=1)
        two = functional.normalize(self.two(values + 0.1), dim=1)
        return {"one": one, "two": two, "scores": 5 * one @ two.T}


class Sampling(nn.Module):
    """A variational autoencoder, which draws random numbers in evaluation, too."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(WIDTH, 4), nn.Linear(2, WIDTH)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        mean, spread = self.encoder(values).chunk(2, 1)
        return self.decoder(mean + torch.randn_like(spread) * spread.exp())


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, values: torch.Tensor) -> torch.Tensor:
        return values.round()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, values: torch.Tensor) -> torch.Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: torch.Tensor) -> torch.Tensor:
        return -0.3 * gradients[0]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, values: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(values)
        return values * values

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: torch.Tensor) -> torch.Tensor:
        (values,) = ctx.saved_tensors  # type: ignore[attr-defined] # set by save_for_backward
        return 2 * values * gradients[0]


class Through(nn.Module):
    """A layer that calls a function, if wanted in training mode only."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.function(values)


class RunningMean(nn.Module):
    """A layer with a mean of its own that training updates, in a registered buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * values.detach().mean(0))
            return values - values.mean(0)
        return values - self.mean


def perceptron(*middle: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 16), *middle, nn.Linear(16, CLASSES))


def convolution() -> nn.Module:
    torch.manual_seed(0)
    layers = (nn.Unflatten(1, (1, WIDTH)), nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers, nn.LazyLinear(CLASSES))


def half_frozen() -> nn.Module:
    model = perceptron(nn.ReLU())
    for parameter in next(model.children()).parameters():
        parameter.requires_grad_(False)
    return model


def frozen_statistics() -> nn.Module:
    """Return a model in which batch normalisation is in evaluation mode in training, too, as for fine-tuning."""
    model = perceptron(nn.BatchNorm1d(16), nn.ReLU())
    next(each for each in model.modules() if isinstance(each, nn.BatchNorm1d)).eval()
    return model


def adapter() -> nn.Module:
    """Return a frozen layer with an adapter of low rank that begins at zero."""
    torch.manual_seed(0)

    class Adapter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(WIDTH, CLASSES).requires_grad_(False)
            self.down, self.up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, CLASSES, bias=False)
            nn.init.zeros_(self.up.weight)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.base(values) + self.up(self.down(values))

    return Adapter()


def contrast(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    scores = model(values)["scores"]
    return functional.cross_entropy(scores, torch.arange(len(scores)))


def rebuild(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(model(values), values)


def next_token(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(values)[:, :-1].flatten(0, 1), values[:, 1:].flatten())


def turned(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(values.T), labels)


def per_token(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(values).mean(1), labels)


def mixed(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return functional.cross_entropy(model(values), labels)


class Experts(nn.Module):
    """A mixture of experts that keeps the balance of its gate, which the loss takes, in an attribute.

    Args:
        keeps: "number", "list", or "number in training" for one that is 0 in evaluation.
        is_gate_cut: True if the gate gets no gradient but that of the balance, and this is cut off, too.
    """

    def __init__(self, keeps: str = "number", *, is_gate_cut: bool = False) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 2)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(2))
        self.keeps, self.is_gate_cut, self.balance = keeps, is_gate_cut, cast("Any", 0.0)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        shares = self.gate(values).softmax(1)
        if self.is_gate_cut:
            shares = shares.detach() + 0 * self.experts[0].weight.sum()
        found = shares.mean(0).square().sum()
        self.balance = [found, found] if self.keeps == "list" else found
        if self.keeps == "number in training" and not self.training:
            self.balance = 0.0
        return (torch.stack([expert(values) for expert in self.experts], 2) * shares.unsqueeze(1)).sum(2)


def balanced(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    scores = model(values)
    kept = cast("Any", model).balance
    return functional.cross_entropy(scores, labels) + 0.1 * (sum(kept) if isinstance(kept, list) else kept)


def of_a_target(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the loss of Q-learning, in whose target network nothing is trained. It is called behind the model."""
    target = copy.deepcopy(model)
    chosen = model(values).gather(1, labels.unsqueeze(1)).squeeze(1)
    expected = torch.zeros(len(values))
    with torch.no_grad():
        expected[:] = target(values.roll(1, 0)).max(1).values
    return functional.smooth_l1_loss(chosen, 0.9 * expected + (labels == 0))


RIGHT: Mapping[str, Case] = {
    "perceptron": Case(lambda: perceptron(nn.ReLU())),
    "dropout": Case(lambda: perceptron(nn.ReLU(), nn.Dropout(0.5))),
    "batch-norm": Case(lambda: perceptron(nn.BatchNorm1d(16), nn.ReLU())),
    "frozen-statistics": Case(frozen_statistics),
    "convolution-with-a-lazy-module": Case(convolution),
    "running-mean": Case(lambda: perceptron(RunningMean(), nn.ReLU())),
    "tied": Case(Tied, next_token, sentences()),
    "recurrent": Case(Recurrent, batches=sentences()),
    "recurrent-batch-second": Case(lambda: Recurrent(batch_first=False), turned, sentences()),
    "attention": Case(Attention, batches=sentences()),
    "attention-by-token": Case(lambda: Attention(pooled=False), per_token, sentences()),
    "causal-without-positions": Case(lambda: Attention(positions=False, causal=True), batches=sentences()),
    "bag-of-words": Case(Bag, batches=sentences()),
    "contrastive": Case(Contrastive, contrast),
    "variational": Case(Sampling, rebuild),
    "half-frozen": Case(half_frozen),
    "adapter-from-zero": Case(adapter),
    "straight-through": Case(lambda: perceptron(Through(StraightThrough.apply))),
    "gradient-reversal": Case(lambda: perceptron(nn.ReLU(), Through(Reversal.apply))),
    "right-custom-backward": Case(lambda: perceptron(Through(Square.apply))),
    "mixed-precision": Case(lambda: perceptron(nn.ReLU()), mixed),
    "experts": Case(Experts, balanced),
    "experts-with-a-list": Case(lambda: Experts("list"), balanced),
    "experts-balanced-in-training": Case(lambda: Experts("number in training"), balanced),
    "target-network": Case(lambda: perceptron(nn.ReLU()), of_a_target),
    "autoencoder": Case(lambda: nn.Sequential(nn.Linear(WIDTH, 2), nn.Tanh(), nn.Linear(2, WIDTH)), rebuild, table()),
}
assert ROWS != TOKENS  # or an axis could not be known by its length
