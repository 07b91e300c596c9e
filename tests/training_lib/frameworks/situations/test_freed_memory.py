"""A parameter whose memory is freed between two steps, and is back later: left out meanwhile, and all else goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.training_lib.frameworks.pytorch.statistics.test_readings import capturing, column, opened, train
from trackside.capture.statistics.budget import Intervals
from trackside.contracts.capture_request import BUILT_IN_COLLECTIONS, StatisticsRequest

STEPS, FREED, BACK = 12, 3, 7
SIZE = 16


class Net(nn.Module):
    """A layer, and a parameter beside it that gets no gradient: so PyTorch leaves it alone, freed or not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.beside_weight = nn.Parameter(torch.ones(SIZE, 2))
        self.register_buffer("mask", torch.ones(SIZE, 2))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layer(values)


def _free(step: int, model: nn.Module, _: torch.optim.Optimizer) -> None:
    """Free and fill as FSDP does with its whole parameters."""
    for name in ("beside_weight", "mask"):
        tensor = getattr(model, name)
        if step == FREED:
            tensor.untyped_storage().resize_(0)
        elif step == BACK:
            tensor.untyped_storage().resize_(tensor.numel() * 4)
            tensor.data.fill_(2.0)


@pytest.fixture(autouse=True)
def unshown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show no values: pytest shows the locals of a failed test, and of a freed tensor PyTorch would read them."""
    monkeypatch.setattr(torch.Tensor, "__repr__", lambda self: "a tensor")


SETTINGS = [
    pytest.param({}, id="sgd"),
    pytest.param({"optimizer_class": torch.optim.AdamW, "lr": 0.01}, id="adamw"),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_freed_between_two_steps(settings: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = tmp_path / "run"
    _, bare = train(STEPS, model_class=Net, before_step=_free, **settings)
    with caplog.at_level(logging.WARNING), capturing(run, *BUILT_IN_COLLECTIONS):
        _, losses = train(STEPS, model_class=Net, before_step=_free, **settings)
    assert losses == bare
    assert "is no longer done" not in caplog.text
    trial = opened(run)
    assert list(column(trial, "Net_layer.weight", "update_l2")) == list(range(STEPS))
    assert list(column(trial, "gradient/Net_layer.weight", "l2")) == list(range(STEPS))
    series = trial.tensor("Net_beside_weight")
    assert series.steps == tuple(step for step in range(STEPS) if step not in range(FREED, BACK))
    norms = column(trial, "Net_beside_weight", "l2")
    assert not set(norms) & set(range(FREED, BACK))
    assert norms[FREED - 1] == pytest.approx((2 * SIZE) ** 0.5)
    assert norms[BACK] == pytest.approx(2 * (2 * SIZE) ** 0.5)
    assert caplog.text.count("cannot be copied and is left out") == 1


@pytest.mark.parametrize(
    "optimizer", [pytest.param(torch.optim.SGD, id="sgd"), pytest.param(torch.optim.Adam, id="adam")]
)
def test_freed_while_weights_are_sampled(
    optimizer: Callable[..., torch.optim.Optimizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples of weights hold addresses from step to step."""
    statistics = StatisticsRequest(budget=1.0, dense_start_steps=0, dense_after_steps=0)
    with capturing(tmp_path / "run", statistics=statistics) as capture:
        recorded = capture.session.statistics
        monkeypatch.setattr(recorded.budget, "intervals", Intervals(1, 1, 1))
        _, losses = train(STEPS, model_class=Net, before_step=_free, optimizer_class=optimizer, lr=0.01)
    assert len(losses) == STEPS
    trial = opened(tmp_path / "run")
    assert len(column(trial, "gradient/Net_layer.weight", "l2")) >= STEPS - 1
