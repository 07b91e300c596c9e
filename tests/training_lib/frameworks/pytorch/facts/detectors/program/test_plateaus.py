"""ReduceLROnPlateau whose number goes against its mode, and the variable that holds the number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import ReduceLROnPlateau

from trackside.contracts.observations import SELECTIONS, SelectionFacts
from trackside.records.model_facts import read_facts

torch.set_num_threads(1)
FALLS, RISES = [1 / (1 + turn) for turn in range(8)], [turn / 8 for turn in range(8)]


def by_name(schedule: Any, value: float) -> None:
    val_loss = value
    schedule.step(val_loss)


def by_tensor(schedule: Any, value: float) -> None:
    logs = {"val_acc": torch.tensor(value)}
    schedule.step(logs["val_acc"].item())


def turned_round(schedule: Any, value: float) -> None:
    val_loss = value
    schedule.step(-val_loss)


def selections(capturing: Any, mode: str, values: list[float], step: Callable[..., None]) -> tuple[SelectionFacts, ...]:
    model = nn.Linear(6, 3)
    with capturing(losses=1) as store:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        schedule = ReduceLROnPlateau(optimizer, mode=mode, patience=20)
        for value in values:
            optimizer.zero_grad()
            functional.cross_entropy(model(torch.ones(4, 6)), torch.tensor([0, 1, 2, 1])).backward()
            optimizer.step()
            step(schedule, value)
    return SELECTIONS.of(read_facts(store, "worker_0")[-1].program)


@pytest.mark.parametrize(
    ("mode", "values", "step", "monitor"),
    [
        pytest.param("max", FALLS, by_name, "val_loss", id="max, and it falls"),
        pytest.param("min", RISES, by_tensor, "val_acc", id="min, and it rises"),
        pytest.param("max", RISES, turned_round, "", id="no variable"),
    ],
)
def test_a_number_against_the_mode_is_noted(
    capturing: Any, mode: str, values: list[float], step: Callable[..., None], monitor: str
) -> None:
    (found,) = selections(capturing, mode, values, step)
    assert (found.kind, found.monitor, found.mode) == ("ReduceLROnPlateau", monitor, mode)
    assert found.line.startswith("test_plateaus.py:")


@pytest.mark.parametrize(
    ("mode", "values"),
    [
        pytest.param("min", FALLS, id="min, and it falls"),
        pytest.param("max", RISES, id="max, and it rises"),
        pytest.param("max", FALLS[:4], id="too few values"),
        pytest.param("max", [1.0] * 8, id="it stands still"),
        pytest.param("max", [float("nan")] * 8, id="it is no number"),
    ],
)
def test_a_number_that_goes_its_way_is_not(capturing: Any, mode: str, values: list[float]) -> None:
    assert selections(capturing, mode, values, by_name) == ()
