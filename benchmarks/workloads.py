"""Trainings on which the cost of capture is measured."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

BATCHES = 8  # ready made, and used in turns


class Conv(nn.Module):
    """9.7 million parameters in 22 tensors."""

    def __init__(self, *, widest: int = 512) -> None:
        super().__init__()
        sizes = [3, *(widest // thinner for thinner in (8, 4, 4, 2, 2, 1, 1, 1, 1))]
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(sizes))
        self.pooled = {0, 2, 4, 6, 8}
        self.head = nn.Sequential(nn.Linear(widest, widest), nn.ReLU(), nn.Linear(widest, 100))

    def forward(self, inputs: Tensor) -> Any:
        for place, convolution in enumerate(self.convolutions):
            inputs = functional.relu(convolution(inputs))
            if place in self.pooled:
                inputs = functional.max_pool2d(inputs, 2)
        return self.head(inputs.flatten(1))


class Block(nn.Module):
    """Attention and a multi-layer perceptron, 12 tensors."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wider, self.narrower = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, inputs: Tensor) -> Any:
        batch, length, width = inputs.shape
        parts = self.attention(self.norm_1(inputs)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        inputs = inputs + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return inputs + self.narrower(functional.gelu(self.wider(self.norm_2(inputs))))


class Gpt(nn.Module):
    """A transformer: by default 12.3 million parameters in 78 tensors; with their gradients 156 tensors, 98 MB."""

    def __init__(
        self, *, width: int = 384, layers: int = 6, heads: int = 6, words: int = 2048, longest: int = 128
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Any:
        inputs = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(inputs))).flatten(0, 1)


class Training:
    """A training that goes on a stretch of steps at a time.

    `tiny` has 2 layers, `half` 3, `mlp` 4 with 0.15 million parameters, `deep` 1,001 thin ones; `conv` convolves;
    `gpt` and `gpt110m` are transformers.

    Args:
        workload: Name of the training.
        device: Where it trains.
        is_tiny: Make `mlp`, `conv` and `gpt` thin, for a trial of a benchmark.
        batch_times: Make batches so many times larger, for a device that has hardly begun with one that suits a CPU.
        reads_losses: Ask for the number of each loss, as many scripts do; a GPU has to be waited for then.
    """

    def __init__(
        self,
        workload: str,
        *,
        device: str = "cpu",
        is_tiny: bool = False,
        batch_times: int = 1,
        reads_losses: bool = True,
    ) -> None:
        torch.manual_seed(0)
        self.workload, self.reads_losses = workload, reads_losses
        if workload.startswith("gpt"):
            width, layers, heads = (864, 12, 12) if workload == "gpt110m" else (24, 2, 6) if is_tiny else (384, 6, 6)
            self.model: nn.Module = Gpt(width=width, layers=layers, heads=heads)
            rows = batch_times * (1 if workload == "gpt110m" else 2)
            tokens = [torch.randint(0, 2048, (rows, 65)) for _ in range(BATCHES)]
            batches = [(text[:, :-1], text[:, 1:].flatten()) for text in tokens]
        elif workload == "conv":
            self.model, rows = Conv(widest=16 if is_tiny else 512), 4 * batch_times
            batches = [(torch.randn(rows, 3, 32, 32), torch.randint(0, 100, (rows,))) for _ in range(BATCHES)]
        else:
            sizes, rows = {
                "tiny": ([8, 16, 2], 64),
                "half": ([64, 128, 128, 10], 96),
                "mlp": ([64, *[16 if is_tiny else 256] * 3, 10], 144 * batch_times),
                "deep": ([16] * 1002, 16),
            }[workload]
            layers_ = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
            self.model = nn.Sequential(*layers_[:-1])
            batches = [(torch.randn(rows, sizes[0]), torch.randint(0, sizes[-1], (rows,))) for _ in range(BATCHES)]
        self.model.to(device)
        self.batches = [(inputs.to(device), labels.to(device)) for inputs, labels in batches]
        self.forward: Callable[..., Any] = self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.criterion: Callable[..., Any] = functional.cross_entropy
        self.after_backward: Callable[[Any], None] | None = None
        self.around_step: Callable[[], AbstractContextManager[None]] | None = None

    def run(self, steps: int) -> None:
        """Train that many steps."""
        for step in range(steps):
            if self.around_step is None:
                self.step(step)
            else:
                with self.around_step():
                    self.step(step)

    def step(self, step: int) -> None:
        """Train one step."""
        inputs, labels = self.batches[step % BATCHES]
        self.optimizer.zero_grad()
        loss = self.criterion(self.forward(inputs), labels)
        loss.backward()
        if self.after_backward is not None:
            self.after_backward(loss)
        self.optimizer.step()
        if self.reads_losses:
            loss.item()
