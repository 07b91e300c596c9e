"""Trainings with one fault each, in this process, that go back or do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.run.rescue import RescueRecord
from trackside.environment import CaptureEnvironment, RescueEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.rescue.rescue import install_around

AT = 120  # the step of the fault
STEPS = 260


class Training:
    """A small regression. Its data are drawn in the loop, or come from a list that is never drawn again."""

    def __init__(self, *, seed: int = 0, rate: float = 1e-2, draws: bool = True, kind: str = "Adam") -> None:
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 1))
        self.target = nn.Linear(8, 1)
        self.optimizer: Any = getattr(torch.optim, kind)(self.net.parameters(), lr=rate)
        self.losses: list[float] = []
        self.weights: list[torch.Tensor] = []
        self._batches = None if draws else [torch.randn(32, 8) for _ in range(STEPS)]

    def run(self, fault: Callable[[Training, int, torch.Tensor], Any], steps: int = STEPS) -> None:
        """Train, and let a fault change the batch, the weights or the optimizer of a step."""
        for step in range(steps):
            rows = torch.randn(32, 8) if self._batches is None else self._batches[step]
            with torch.no_grad():
                labels = self.target(rows)
            changed = fault(self, step, rows)
            rows = rows if changed is None else changed
            loss = functional.mse_loss(self.net(rows), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())
            self.weights.append(nn.utils.parameters_to_vector(self.net.parameters()).detach().clone())

    @property
    def last_loss(self) -> float:
        return sum(self.losses[-20:]) / 20


def sound(_training: Training, _step: int, _rows: torch.Tensor) -> None:
    """Change nothing."""


def broken_batch(_training: Training, step: int, rows: torch.Tensor) -> torch.Tensor | None:
    return rows * math.nan if step == AT else None


def huge_batch(training: Training, step: int, rows: torch.Tensor) -> None:
    """Let a step make an update far beyond all before."""
    if step == AT:
        with torch.no_grad():
            for parameter in training.net.parameters():
                parameter.add_(torch.randn_like(parameter) * 100)


def torn_weights(training: Training, step: int, _rows: torch.Tensor) -> None:
    """Break one weight between two steps of the optimizer, after the loss was computed."""
    if step == AT:
        weight = training.net[3].weight

        def tear(*_: Any) -> None:
            handle.remove()
            with torch.no_grad():
                weight[0, 3] = math.inf

        handle = training.optimizer.register_step_post_hook(tear)


def rate_jump(training: Training, step: int, _rows: torch.Tensor) -> None:
    training.optimizer.param_groups[0]["lr"] = 5.0 if AT <= step < AT + 60 else 1e-2


def rate_from_the_start(training: Training, _step: int, _rows: torch.Tensor) -> None:
    training.optimizer.param_groups[0]["lr"] = 1e20


def comes_again(_training: Training, step: int, rows: torch.Tensor) -> torch.Tensor | None:
    return rows * math.nan if step >= AT else None


@contextmanager
def rescued(folder: Path, *, ranks: int = 1, **settings: int) -> Iterator[Callable[[], RescueRecord | None]]:
    """Capture trainings in this block, and let them go back. Yield the function that reads the record."""
    environment = CaptureEnvironment(str(folder), CaptureRequest(()).to_json(), 0, ranks)
    adapter = PyTorchAdapter(environment)
    rescue = install_around(
        adapter, RescueEnvironment(is_on=True, **settings), clock=lambda: 1.0, thread_clock=lambda: 1.0
    )  # all is free
    path = folder / "rescue" / "worker_0.json"
    try:
        yield lambda: RescueRecord.from_json(path.read_bytes()) if path.exists() else None
    finally:
        rescue.remove()
        adapter.uninstall()
