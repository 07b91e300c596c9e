"""Weights that break at a step that is not measured, and stop the script from stepping."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from trackside.contracts.capture_request import CaptureRequest, StatisticsRequest
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.frameworks.pytorch.statistics.device_numbers import DeviceNumbers
from trackside.frameworks.pytorch.statistics.last_look import broken_weights
from trackside.trial.trial import open_trial

SELDOM = StatisticsRequest(budget=1.0, dense_start_steps=2, dense_after_steps=0, dear_interval=50)
NAN, STEPS = math.nan, 17


def train(breaks_at: int | None, *, passes: int = STEPS) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Train for some steps, with a gradient that breaks at one; passes after the last step are without one."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(passes):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).square().mean().backward()
        if step == breaks_at and model.weight.grad is not None:
            model.weight.grad[0, 0] = NAN
        if step < STEPS:
            optimizer.step()
    return model, optimizer


def ends_alive(breaks_at: int | None) -> object:
    return train(breaks_at)


def ends_gone(breaks_at: int | None) -> object:
    train(breaks_at)
    return None


def goes_on_without_steps(breaks_at: int | None) -> object:
    model, optimizer = train(breaks_at, passes=STEPS + 100)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # at the end nothing is to be seen any more
    return optimizer


@pytest.mark.parametrize("breaks_at", [pytest.param(STEPS - 1, id="broken"), pytest.param(None, id="sound")])
@pytest.mark.parametrize("script", [ends_alive, ends_gone, goes_on_without_steps])
def test_weights_are_looked_at_once_steps_have_ended(
    script: Callable[[int | None], object], breaks_at: int | None, tmp_path: Path
) -> None:
    adapter = PyTorchAdapter(CaptureEnvironment(str(tmp_path), CaptureRequest((), statistics=SELDOM).to_json(), 0, 1))
    adapter.install()
    try:
        kept = script(breaks_at)
    finally:
        adapter.uninstall()
    del kept
    trial = open_trial(RunLocation(str(tmp_path)).uri)
    window = trial.window(STEPS - 1, now=0.0)
    found = {
        (name, int(column.steps[-1])): column.values[-1]
        for name in window.tensors("all")
        if not name.startswith("gradient/")
        for column in window.statistic(name, "nonfinite_count", mode=None)
        if column.values[-1] > 0
    }
    assert found == ({("Linear_weight", STEPS - 1): 1.0} if breaks_at is not None else {})


def without_memory() -> torch.Tensor:
    weight = torch.full((4,), NAN)
    weight.untyped_storage().resize_(0)
    return weight


@pytest.mark.parametrize(
    ("weight", "count"),
    [
        pytest.param(torch.tensor([1.0, NAN, math.inf]), 2, id="broken"),
        pytest.param(torch.tensor([1.0, NAN], dtype=torch.bfloat16), 1, id="half-precision"),
        pytest.param(torch.tensor([[1.0, NAN], [2.0, 3.0]]).t(), 1, id="turned"),
        pytest.param(torch.tensor([1.0, 2.0]), None, id="sound"),
        pytest.param(torch.full((3,), 3e38), None, id="a-norm-beyond-the-largest-number"),
        pytest.param(torch.empty(0), None, id="empty"),
        pytest.param(torch.empty(3, device="meta"), None, id="meta"),
        pytest.param(torch.tensor([1, 2]), None, id="whole-numbers"),
        pytest.param(without_memory(), None, id="without-memory"),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_what_counts_as_broken(weight: torch.Tensor, count: int | None, is_late: bool) -> None:
    found = broken_weights([("w", weight)], DeviceNumbers(lambda _: is_late))
    assert found.get(("w", "nonfinite_count")) == count
