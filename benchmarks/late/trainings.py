"""Small character models of text that ships with Python: healthy runs, and runs whose learning rate goes wrong late.

The text is `pydoc_data.topics`, the help texts of Python. A model has two layers of width 64; a training has 12 pieces
of 48 characters a step. Every fault is one of the learning rate and begins at `FAULT_STEP`, after a good start.
"""

from __future__ import annotations

import math
import pydoc_data.topics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

FAULT_STEP = 200
WIDTH, HEADS, LAYERS, PIECE, BATCH = 64, 4, 2, 48, 12
EXPERTS = 4
RATE = 3e-3


@dataclass(frozen=True)
class Training:
    """One training of the trial.

    model     "dense", "experts" (with a loss that balances their load) or "unbalanced" (without it)
    schedule  "constant", "cosine", "ramp" (the rate grows by a fifth a step without end) or "high" (it rises to 0.3
              within 50 steps and stays there); the last two are faults
    """

    model: str
    schedule: str
    seed: int
    steps: int

    @property
    def name(self) -> str:
        return f"{self.model}-{self.schedule}-{self.seed}"

    def folder(self, root: Path) -> Path:
        """Return the folder of its run."""
        return root / self.name

    @property
    def is_faulty(self) -> bool:
        return self.schedule in {"ramp", "high"}

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        if self.schedule == "cosine":
            return RATE * (0.05 + 0.95 * (1 + math.cos(math.pi * step / self.steps)) / 2)
        late = step - FAULT_STEP
        if late < 0 or self.schedule == "constant":
            return RATE
        return RATE * 1.2**late if self.schedule == "ramp" else RATE * (0.3 / RATE) ** min(1.0, late / 50)


HEALTHY = tuple(
    Training(model, schedule, seed, steps)
    for model, schedule, seeds, steps in (
        ("dense", "constant", (0, 1), 400),
        ("dense", "cosine", (2, 3), 400),
        ("experts", "constant", (0, 1, 2), 300),
        ("unbalanced", "constant", (0, 1, 2), 300),
    )
    for seed in seeds
)
FAULTY = tuple(
    Training(model, schedule, seed, steps)
    for model, schedule, steps in (("dense", "ramp", 250), ("experts", "ramp", 250), ("dense", "high", 330))
    for seed in (10, 11, 12)
)


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        q, k, v = self.qkv(x).view(rows, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        return out


class Experts(nn.Module):
    """A layer of experts of which each character uses the one that a linear layer chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.choice = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(_dense() for _ in range(EXPERTS))
        self.imbalance = torch.zeros(())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = self.choice(x).softmax(-1)
        best, chosen = share.max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            taken = chosen == number
            out[taken] = expert(x[taken]) * best[taken].unsqueeze(-1)
        load = functional.one_hot(chosen, EXPERTS).float().mean((0, 1))
        self.imbalance = EXPERTS * (load * share.mean((0, 1))).sum()
        return out


def _dense() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


class Block(nn.Module):
    """Attention and a layer of units, each after a normalisation and beside a residual connection."""

    def __init__(self, *, has_experts: bool) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.units: nn.Module = Experts() if has_experts else _dense()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended = x + self.attention(self.before(x))
        out: torch.Tensor = attended + self.units(self.between(attended))
        return out


class CharacterModel(nn.Module):
    """A small GPT."""

    def __init__(self, characters: int, *, has_experts: bool) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(characters, WIDTH), nn.Embedding(PIECE, WIDTH)
        self.blocks = nn.ModuleList(Block(has_experts=has_experts) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.token(text) + self.place(torch.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits

    def imbalance(self) -> torch.Tensor:
        """How unequally the experts were used by the last call, of all layers together."""
        layers = [module.imbalance for module in self.modules() if isinstance(module, Experts)]
        return torch.stack(layers).sum()


@cache
def text() -> tuple[torch.Tensor, int]:
    """The text as numbers of characters, and how many different ones it has."""
    whole = "\n".join(pydoc_data.topics.topics.values())
    known = sorted(set(whole))
    number = {character: place for place, character in enumerate(known)}
    return torch.tensor([number[character] for character in whole]), len(known)


class Pieces(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Pieces of the text, each with the characters that follow."""

    def __init__(self) -> None:
        self.text, _ = text()

    def __len__(self) -> int:
        return (len(self.text) - 1) // PIECE

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        at = number * PIECE
        return self.text[at : at + PIECE], self.text[at + 1 : at + PIECE + 1]


def train(training: Training) -> Iterator[float]:
    """Train; yield the loss of each step."""
    torch.manual_seed(training.seed)
    _, characters = text()
    model = CharacterModel(characters, has_experts=training.model != "dense")
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    loader: Any = torch.utils.data.DataLoader(Pieces(), batch_size=BATCH, shuffle=True, drop_last=True)
    batches = iter(loader)
    for step in range(training.steps):
        optimizer.param_groups[0]["lr"] = training.rate(step)
        given, following = next(batches)
        logits = model(given)
        guessed = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        loss = guessed
        if training.model == "experts":
            loss = guessed + 0.01 * model.imbalance()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield guessed.item()
