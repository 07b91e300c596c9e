"""Layers that compute with old casts of their weights under autocast; silent where each pass has new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.modules.stale_casts import ENOUGH, StaleCasts

torch.set_num_threads(1)


def autocast(*, keeps: bool = True) -> Any:
    return torch.autocast("cpu", torch.bfloat16, cache_enabled=keeps)


class Heard:
    """A model of which each layer's output is heard, and a training step."""

    def __init__(self, *, dimensions: int = 2) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        self.values = torch.randn(*[5] * (dimensions - 1), 6)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)
        self.seen = StaleCasts(Watch())
        for layer in self.net:
            layer.register_forward_hook(lambda module, _, output: self.seen.returned(module, output))

    def forward(self) -> torch.Tensor:
        loss: torch.Tensor = self.net(self.values).float().square().mean()
        return loss

    def step(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def around_the_loop(heard: Heard, steps: int) -> None:
    with autocast():
        for _ in range(steps):
            heard.step(heard.forward())


def around_the_pass(heard: Heard, steps: int) -> None:
    for _ in range(steps):
        with autocast():
            loss = heard.forward()
        heard.step(loss)


def around_the_step(heard: Heard, steps: int) -> None:
    for _ in range(steps):
        with autocast():
            heard.step(heard.forward())


def without_a_cache(heard: Heard, steps: int) -> None:
    with autocast(keeps=False):
        for _ in range(steps):
            heard.step(heard.forward())


def without_autocast(heard: Heard, steps: int) -> None:
    for _ in range(steps):
        heard.step(heard.forward())


def with_several_passes(heard: Heard, steps: int) -> None:
    for _ in range(steps):
        with autocast():
            loss = heard.forward() + heard.forward()
        heard.step(loss)


@pytest.mark.parametrize(
    ("train", "steps", "dimensions", "is_stale"),
    [
        pytest.param(around_the_loop, 4, 2, True, id="around the loop"),
        pytest.param(around_the_loop, 6, 3, True, id="so with three dimensions"),
        pytest.param(around_the_loop, ENOUGH, 2, False, id="too early to tell"),
        pytest.param(around_the_pass, 6, 2, False, id="around the forward pass"),
        pytest.param(around_the_step, 6, 2, False, id="around each step"),
        pytest.param(without_a_cache, 6, 2, False, id="without a cache"),
        pytest.param(without_autocast, 6, 2, False, id="without autocast"),
        pytest.param(with_several_passes, 6, 3, False, id="two passes in a block"),
    ],
)
def test_casts(train: Callable[[Heard, int], None], steps: int, dimensions: int, is_stale: bool) -> None:
    heard = Heard(dimensions=dimensions)
    train(heard, steps)
    assert (heard.seen.of(heard.net[2]) == ENOUGH) is is_stale
    assert heard.seen.of(heard.net[1]) == 0
    assert bool(heard.seen.changes()) is is_stale
