"""The share of half-precision elements that a step leaves as they were, against a count with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.contracts.run.recorded_names import LOST_UPDATES
from trackside.rules.program.lost_updates import LostUpdates
from trackside.trial.trial import Trial

torch.set_num_threads(1)
Made = Callable[[Any], torch.optim.Optimizer]


class Shaky(torch.optim.SGD):
    """An optimizer of another library."""


def train(dtype: torch.dtype, make: Made, *, seen: list[float] | None = None, schedule: Any = None) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(dtype)
    optimizer = make(net.parameters())
    for step in range(30):
        if schedule is not None:
            optimizer.param_groups[0]["lr"] = schedule(step)
        optimizer.zero_grad()
        functional.mse_loss(net(torch.randn(8, 16).to(dtype)), torch.randn(8, 4).to(dtype)).backward()
        before = [p.detach().clone() for p in net.parameters()]
        optimizer.step()
        if seen is not None:
            touched = [(p.grad != 0).numpy() for p in net.parameters() if p.grad is not None]
            stayed = [(p == q).numpy() for p, q in zip(net.parameters(), before, strict=True)]
            lost = sum(int(np.logical_and(a, b).sum()) for a, b in zip(touched, stayed, strict=True))
            seen.append(lost / sum(int(a.sum()) for a in touched))


def captured(capturing: Any, *args: Any, **kwargs: Any) -> Trial:
    with capturing(losses=100) as store:
        train(*args, **kwargs)
    trial = Trial(store, store)
    trial.refresh()
    return trial


def shares(trial: Trial) -> dict[int, float]:
    columns = trial.columns(LOST_UPDATES, "mean", last_step=100, mode="TRAIN")
    return dict(zip(columns[0].steps.tolist(), columns[0].values.tolist(), strict=True)) if columns else {}


def fires(trial: Trial) -> bool:
    return bool(list(LostUpdates().check(trial.window(29, now=0.0, newest_step_at=0.0))))


def adamw(lr: float) -> Made:
    return lambda parameters: torch.optim.AdamW(parameters, lr)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("lr", [1e-6, 1e-4, 1e-2])
def test_it_is_what_numpy_counts(capturing: Any, dtype: torch.dtype, lr: float) -> None:
    seen: list[float] = []
    found = shares(captured(capturing, dtype, adamw(lr), seen=seen))
    assert len(found) > 5
    for step, share in found.items():
        assert share == pytest.approx(seen[step], abs=1e-6)


@pytest.mark.parametrize(
    ("dtype", "make", "is_lost"),
    [
        pytest.param(torch.bfloat16, adamw(1e-6), True, id="AdamW at a millionth, bfloat16"),
        pytest.param(torch.bfloat16, adamw(1e-5), True, id="AdamW at a hundred-thousandth, bfloat16"),
        pytest.param(torch.float16, lambda p: torch.optim.SGD(p, 1e-5), True, id="SGD, float16"),
        pytest.param(torch.bfloat16, lambda p: torch.optim.SGD(p, 1e-4), True, id="SGD, bfloat16"),
        pytest.param(torch.bfloat16, adamw(1e-2), False, id="a high rate"),
        pytest.param(torch.float16, adamw(1e-3), False, id="a usual rate, float16"),
        pytest.param(torch.float32, adamw(1e-6), False, id="float32"),
        pytest.param(torch.bfloat16, lambda p: Shaky(p, 1e-6), False, id="an optimizer of another library"),
    ],
)
def test_rates_below_the_resolution_are_found(capturing: Any, dtype: torch.dtype, make: Made, is_lost: bool) -> None:
    assert fires(captured(capturing, dtype, make)) is is_lost


def test_a_rate_of_zero_loses_nothing(capturing: Any) -> None:
    trial = captured(capturing, torch.bfloat16, adamw(1e-2), schedule=lambda step: 0.0 if step < 20 else 1e-2)
    assert min(shares(trial), default=20) >= 20
    assert not fires(trial)
