"""The models, as people write them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def mlp(
    *sizes: int,
    activation: Callable[[], nn.Module] = nn.ReLU,
    norm: Callable[[int], nn.Module] | None = None,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Linear layers of these sizes, with the activation between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes[:-1]):
        layers.append(nn.Linear(inputs, outputs))
        layers += [norm(outputs)] if norm else []
        layers.append(activation())
        layers += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Classifier(nn.Module):
    """An encoder and a head, as in scripts that reuse the encoder."""

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, inputs: Tensor) -> Any:
        return self.head(self.encoder(inputs))


class ConvNet(nn.Module):
    """Convolutions of 3 by 3, pooled once, and two linear layers."""

    def __init__(self, *, channels: Sequence[int] = (1, 16, 32), norm: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(channels))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) if norm else nn.Identity() for b in channels[1:])
        self.activation = nn.ReLU()
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(channels[-1] * 16, 32)
        self.output = nn.Linear(32, 10)

    def forward(self, images: Tensor) -> Any:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            images = self.activation(norm(convolution(images)))
        features = functional.max_pool2d(images, 2).flatten(1)
        return self.output(self.dropout(self.activation(self.hidden(features))))


class ResidualBlock(nn.Module):
    """Adds what two convolutions make of it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, images: Tensor) -> Tensor:
        changed = functional.relu(self.norm1(self.conv1(images)))
        return functional.relu(images + self.norm2(self.conv2(changed)))


class ResidualNet(nn.Module):
    """A stem, residual blocks, the mean over the image, a linear layer."""

    def __init__(self, *, channels: int = 12, blocks: int = 4, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(ResidualBlock(channels) for _ in range(blocks)))
        self.output = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Any:
        return self.output(self.blocks(self.stem(images)).mean((2, 3)))


class ResidualPerceptron(nn.Module):
    """Many narrow layers, each of which adds a little, each normalised before it."""

    def __init__(self, inputs: int, width: int, depth: int, outputs: int) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
            for _ in range(depth)
        )
        self.head = nn.Linear(width, outputs)

    def forward(self, rows: Tensor) -> Any:
        values = self.embed(rows)
        for block in self.blocks:
            values = values + block(values)
        return self.head(values)


class Recurrent(nn.Module):
    """A recurrent layer and a linear one that reads its last state, or all of them."""

    def __init__(
        self,
        cell: Callable[..., nn.Module],
        inputs: int,
        width: int,
        outputs: int,
        *,
        symbols: int = 0,
        every_place: bool = False,
        layers: int = 1,
        both_ways: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, inputs) if symbols else None
        self.recurrent = cell(inputs, width, num_layers=layers, batch_first=True, bidirectional=both_ways)
        self.output = nn.Linear(width * (2 if both_ways else 1), outputs)
        self.every_place = every_place

    def forward(self, sequences: Tensor) -> Any:
        values = self.embedding(sequences) if self.embedding is not None else sequences
        states, _ = self.recurrent(values)
        return self.output(states if self.every_place else states[:, -1])


class Transformer(nn.Module):
    """A small transformer over symbols, with an answer at each place."""

    def __init__(
        self,
        symbols: int,
        *,
        length: int,
        width: int = 32,
        layers: int = 2,
        causal: bool = True,
        tied: bool = False,
        norm_first: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(symbols, width)
        self.position = nn.Parameter(0.02 * torch.randn(length, width))
        block = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=dropout, activation="gelu", batch_first=True, norm_first=norm_first
        )
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, symbols, bias=not tied)
        if tied:
            nn.init.normal_(self.token.weight, std=0.1)
            self.output.weight = self.token.weight
        self.mask = nn.Transformer.generate_square_subsequent_mask(length) if causal else None

    def forward(self, symbols: Tensor) -> Any:
        values = self.token(symbols) + self.position
        return self.output(self.norm(self.blocks(values, mask=self.mask, is_causal=self.mask is not None)))


class BagOfWords(nn.Module):
    """The mean of the words' vectors, and layers over it."""

    def __init__(self, words: int, width: int, classes: int, *, sparse: bool = False, hidden: int = 0) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(words, width, mode="mean", sparse=sparse)
        self.head = mlp(width, hidden, classes) if hidden else nn.Linear(width, classes)

    def forward(self, passages: Tensor) -> Any:
        return self.head(self.words(passages))


class Autoencoder(nn.Module):
    """Squeezes rows through a few numbers and back."""

    def __init__(self, *sizes: int, activation: Callable[[], nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.encoder = mlp(*sizes, activation=activation)
        self.decoder = mlp(*reversed(sizes), activation=activation)

    def forward(self, rows: Tensor) -> Any:
        return self.decoder(self.encoder(rows))


class TiedAutoencoder(nn.Module):
    """One matrix that encodes, and transposed decodes."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, inputs))
        nn.init.xavier_uniform_(self.weight)
        self.hidden_bias = nn.Parameter(torch.zeros(width))
        self.visible_bias = nn.Parameter(torch.zeros(inputs))

    def forward(self, rows: Tensor) -> Tensor:
        hidden = torch.tanh(functional.linear(rows, self.weight, self.hidden_bias))
        return functional.linear(hidden, self.weight.t(), self.visible_bias)


class Places(nn.Module):
    """Cross entropy over classes that stand in the last dimension."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.entropy = nn.CrossEntropyLoss(**settings)

    def forward(self, outputs: Tensor, targets: Tensor) -> Any:
        return self.entropy(outputs.flatten(0, -2), targets.flatten())
