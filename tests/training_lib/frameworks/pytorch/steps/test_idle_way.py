"""The idle way stores what the long way does, is taken where nothing is due, and left as soon as anything is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import trackside
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.frameworks.pytorch.steps.idle_way import IdleWay
from trackside.frameworks.pytorch.steps.strategy import ByOptimizer

STEPS = 60
INTERVAL = 20
Loop = Callable[[int, nn.Module, torch.optim.Optimizer, torch.Tensor, PyTorchAdapter], None]


def plain(
    step: int, model: nn.Module, optimizer: torch.optim.Optimizer, loss: torch.Tensor, capture: PyTorchAdapter
) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def evaluated(
    step: int, model: nn.Module, optimizer: torch.optim.Optimizer, loss: torch.Tensor, capture: PyTorchAdapter
) -> None:
    plain(step, model, optimizer, loss, capture)
    if step % 20 == 10:
        model.eval()
        with torch.no_grad():
            functional.cross_entropy(model(torch.ones(4, 6)), torch.tensor([0, 1, 2, 0]))
        model.train()


def with_scalar(
    step: int, model: nn.Module, optimizer: torch.optim.Optimizer, loss: torch.Tensor, capture: PyTorchAdapter
) -> None:
    if step in {13, 14, 37}:
        capture.session.engine.open_step.add_scalar("mine", float(step))
    plain(step, model, optimizer, loss, capture)


def with_closure(
    step: int, model: nn.Module, optimizer: torch.optim.Optimizer, loss: torch.Tensor, capture: PyTorchAdapter
) -> None:
    def closure() -> float:
        optimizer.zero_grad()
        loss.backward()
        return loss.item()

    if step % 7 == 3:
        optimizer.step(closure)
    else:
        plain(step, model, optimizer, loss, capture)


def joined_later(
    step: int, model: nn.Module, optimizer: torch.optim.Optimizer, loss: torch.Tensor, capture: PyTorchAdapter
) -> None:
    plain(step, model, optimizer, loss, capture)
    if step == 31:
        torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.5)


def run(loop: Loop, location: Path) -> tuple[Any, Any]:
    """Train; return what was stored, and the weights at the end."""
    collections = (CollectionRequest("weights", Schedule(INTERVAL)), CollectionRequest("losses", Schedule(INTERVAL)))
    request = CaptureRequest(collections, statistics=StatisticsRequest(enabled=False))
    capture = PyTorchAdapter(CaptureEnvironment(str(location), request.to_json(), 0, 1))
    capture.install()
    try:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(STEPS):
            loss = functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
            loop(step, model, optimizer, loss, capture)
        position = capture.session.engine.position()
    finally:
        capture.uninstall()
    trial = trackside.open_trial(str(location))
    stored = {
        (tensor.name, step): trial.mode_of(step) + str(tensor.value(step).tolist())
        for tensor in map(trial.tensor, trial.names)
        for step in tensor.steps
    }
    return (position, stored), [parameter.detach().numpy() for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("loop", "fewest"),
    [
        pytest.param(plain, 45, id="plain"),
        pytest.param(evaluated, 30, id="evaluation-in-between"),
        pytest.param(with_scalar, 40, id="scalars-of-the-script"),
        pytest.param(with_closure, 20, id="a-closure-now-and-then"),
        pytest.param(joined_later, 20, id="another-optimizer-later"),
    ],
)
def test_stores_what_the_long_way_does(
    loop: Loop, fewest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    end = IdleWay.end
    monkeypatch.setattr(IdleWay, "end", lambda way, optimizer: taken.append(end(way, optimizer)) or taken[-1])
    idle, weights = run(loop, tmp_path / "idle")
    assert fewest <= sum(taken) < STEPS
    monkeypatch.setattr(ByOptimizer, "takes_short_way", False)
    long, expected = run(loop, tmp_path / "long")
    assert len(taken) < STEPS, "the second run takes the long way"
    assert idle == long
    assert len({step for _, step in idle[1]}) >= 3, "of so many something was saved"
    for a, b in zip(weights, expected, strict=True):
        assert np.array_equal(a, b)


def test_another_optimizer_closes_it(tmp_path: Path) -> None:
    request = CaptureRequest(
        (CollectionRequest("losses", Schedule(10**6)),), statistics=StatisticsRequest(enabled=False)
    )
    capture = PyTorchAdapter(CaptureEnvironment(str(tmp_path / "run"), request.to_json(), 0, 1))
    capture.install()
    try:
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
        assert capture.steps.idle_way.steps_left
        torch.optim.SGD(model.parameters(), lr=0.1)
        assert not capture.steps.idle_way.steps_left
    finally:
        capture.uninstall()
