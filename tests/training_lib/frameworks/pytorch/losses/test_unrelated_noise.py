"""Targets that are noise of which a model reads nothing, and those that it can learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.frameworks.pytorch.losses.unrelated_noise import unrelated_noise

torch.set_num_threads(1)
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
ROWS = 128


def points() -> torch.Tensor:
    angles = torch.rand(ROWS) * 6.28
    return torch.stack([angles.cos(), angles.sin()], 1) * 1.414


def pictures() -> torch.Tensor:
    """Pictures whose places are like their neighbours."""
    found = functional.interpolate(torch.randn(ROWS, 2, 3, 3), size=12, mode="bicubic")
    return (found - found.mean()) / found.std()


def flat() -> torch.Tensor:
    return pictures()[:, 0].flatten(1)


def series() -> torch.Tensor:
    """Steps with channels, for a model of each step."""
    return torch.randn(ROWS, 16, 4).cumsum(1) / 3


def by_hand(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return ((wanted - found) ** 2).mean()


def among_terms(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return 2 * functional.mse_loss(found, wanted) + 0.1 * found.abs().mean()


class OfPoints(nn.Module):
    """Layers over what is read and an embedding of a step, in one table."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.steps = nn.Embedding(10, 8)
        self.layers = nn.Sequential(nn.Linear(width + 8, 32), nn.SiLU(), nn.Linear(32, width))

    def forward(self, read: torch.Tensor) -> torch.Tensor:
        steps = self.steps(torch.arange(read.shape[0]) % 10)
        steps = steps if read.dim() == 2 else steps[:, None].expand(-1, read.shape[1], -1)
        return self.layers(torch.cat([read, steps], -1))


def of_pictures() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, 2, 3, padding=1))


MODELS: dict[str, tuple[Callable[[], torch.Tensor], Callable[[], nn.Module]]] = {
    "points": (points, lambda: OfPoints(2)),
    "pictures": (pictures, of_pictures),
    "flat pictures": (flat, lambda: OfPoints(144)),
    "series": (series, lambda: OfPoints(4)),
}


def looked(kind: str, target: str, loss: Loss = functional.mse_loss) -> list[float | None]:
    """Return what five batches give, of a target by its name."""
    found = []
    for seed in range(5):
        torch.manual_seed(seed)
        data, made = MODELS[kind]
        clean, model = data(), made()
        noise, share = torch.randn_like(clean), torch.rand(ROWS, *[1] * (clean.dim() - 1))
        read = (1 - share).sqrt() * clean + share.sqrt() * noise
        wanted = {
            "noise": noise,
            "noise drawn again": torch.randn_like(clean),
            "velocity": (1 - share).sqrt() * noise - share.sqrt() * clean,
            "clean": clean,
            "twice the noise drawn again": 2 * torch.randn_like(clean),
            "uniform numbers": (torch.rand_like(clean) - 0.5) * 3.46,
        }[target]
        with torch.no_grad():
            list(model.parameters())[-1].zero_()
        number = unrelated_noise(loss(0.1 * model(read), wanted).grad_fn)
        found.append(None if number is None else float(number))
    return found


@pytest.mark.parametrize("loss", [functional.mse_loss, by_hand, among_terms, functional.smooth_l1_loss])
@pytest.mark.parametrize("kind", MODELS)
def test_noise_that_was_drawn_again_is_seen(kind: str, loss: Loss) -> None:
    assert looked(kind, "noise drawn again", loss).count(1.0) >= 4  # one in thirty is odd by chance


@pytest.mark.parametrize("loss", [functional.mse_loss, by_hand])
@pytest.mark.parametrize("kind", MODELS)
def test_noise_that_is_read_is_not(kind: str, loss: Loss) -> None:
    assert looked(kind, "noise", loss) == [0.0] * 5


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("pictures", "velocity"),
        ("flat pictures", "velocity"),
        ("pictures", "clean"),
        ("series", "clean"),
        ("points", "clean"),
        ("points", "twice the noise drawn again"),
        ("pictures", "uniform numbers"),
    ],
)
def test_other_targets_are_not(kind: str, target: str) -> None:
    assert looked(kind, target) == [0.0] * 5


def of_numbers(rows: int, width: int) -> torch.Tensor:
    return functional.mse_loss(nn.Linear(6, width)(torch.randn(rows, 6)), torch.randn(rows, width))


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda: of_numbers(600, 1), id="one number for each row"),
        pytest.param(lambda: of_numbers(16, 20), id="few rows"),
        pytest.param(lambda: of_numbers(40, 4), id="few numbers"),
        pytest.param(
            lambda: functional.cross_entropy(nn.Linear(6, 3)(torch.randn(ROWS, 6)), torch.arange(ROWS) % 3),
            id="classes",
        ),
        pytest.param(lambda: nn.Linear(6, 3)(torch.randn(ROWS, 6)).mean(), id="no targets"),
        pytest.param(
            lambda: functional.mse_loss(nn.Parameter(torch.zeros(ROWS, 4)), torch.randn(ROWS, 4)), id="no layer"
        ),
    ],
)
def test_what_cannot_be_compared(loss: Callable[[], Any]) -> None:
    assert unrelated_noise(loss().grad_fn) is None
