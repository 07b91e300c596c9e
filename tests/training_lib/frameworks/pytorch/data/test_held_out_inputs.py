"""Inputs of evaluations: random ones, ones scaled by themselves, and right ones that look like either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from trackside.contracts.run.recorded_names import HELD_OUT_INPUTS_CHANGED, HELD_OUT_INPUTS_OWN_STATISTICS
from trackside.trial.trial import Trial

torch.set_num_threads(1)
WIDTH = 9


def rows(count: int, *, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return 3 + 2 * torch.randn(count, WIDTH, generator=generator), torch.arange(count) % 3


def scaled(values: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return (values - by.mean(0)) / by.std(0)


class Changing(Dataset[Any]):
    """Rows that each access changes."""

    def __init__(self, change: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        (self.values, self.labels), self.change = rows(96, seed=1), change

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> Any:
        return self.change(self.values[place], self.labels[place])


def noisy(values: torch.Tensor) -> torch.Tensor:
    return values + torch.randn(WIDTH) / 10


HELD_OUT: dict[str, Dataset[Any]] = {
    "as they are": TensorDataset(*rows(96, seed=1)),
    "noise": Changing(lambda values, label: (noisy(values), label)),
    "two views": Changing(lambda values, label: (noisy(values), noisy(values), label)),
    "noise to be taken out": Changing(lambda values, label: (noisy(values), values)),
    "words": Changing(lambda values, label: (torch.randint(0, 9, (WIDTH,)), label)),
    "by the training": TensorDataset(scaled(rows(96, seed=1)[0], rows(120, seed=0)[0]), rows(96, seed=1)[1]),
    "by themselves": TensorDataset(scaled(rows(96, seed=1)[0], rows(96, seed=1)[0]), rows(96, seed=1)[1]),
    "row by row": TensorDataset(functional.layer_norm(rows(96, seed=1)[0], (WIDTH,)), rows(96, seed=1)[1]),
    "half by half": TensorDataset(
        torch.cat([scaled(part, part) for part in rows(96, seed=1)[0].split(48)]), rows(96, seed=1)[1]
    ),
    "the training's own": TensorDataset(scaled(rows(120, seed=0)[0], rows(120, seed=0)[0]), rows(120, seed=0)[1]),
}


def found(
    capturing: Any, name: str, held_out: Dataset[Any], *, times: int = 1, shuffle: bool = False, batch: int = 24
) -> list[float]:
    """Return a number of each evaluation but the last."""
    (values, labels), torch_seed = rows(120, seed=0), 0
    torch.manual_seed(torch_seed)
    training = DataLoader(TensorDataset(scaled(values, values), labels), batch_size=16, shuffle=True)
    evaluation = DataLoader(held_out, batch_size=batch, shuffle=shuffle)
    with capturing(losses=100) as store:
        net = nn.Linear(WIDTH, 3)
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        for _ in range(4):
            net.train()
            for inputs, targets in training:
                optimizer.zero_grad()
                functional.cross_entropy(net(inputs), targets).backward()
                optimizer.step()
            net.eval()
            with torch.no_grad():
                for _ in range(times):
                    for given in evaluation:
                        net(given[0].float()).argmax(1)
    trial = Trial(store, store)
    trial.refresh()
    columns = trial.columns(name, "mean", last_step=10_000, mode="TRAIN")
    return [float(value) for column in columns for value in column.values]


@pytest.mark.parametrize(
    ("held_out", "changed"),
    [
        ("noise", [1.0, 1.0]),
        ("as they are", [0.0, 0.0]),
        ("by themselves", [0.0, 0.0]),
        ("two views", []),
        ("noise to be taken out", []),
        ("words", []),
    ],
)
def test_inputs_that_change(capturing: Any, held_out: str, changed: list[float]) -> None:
    assert found(capturing, HELD_OUT_INPUTS_CHANGED, HELD_OUT[held_out]) == changed


def test_several_passes_and_another_order_are_no_change(capturing: Any) -> None:
    assert found(capturing, HELD_OUT_INPUTS_CHANGED, HELD_OUT["noise"], times=3) == []
    assert found(capturing, HELD_OUT_INPUTS_CHANGED, HELD_OUT["as they are"], shuffle=True) == []


@pytest.mark.parametrize(
    ("held_out", "batch", "share"),
    [
        ("by themselves", 24, 1.0),
        ("by themselves", 96, 1.0),
        ("by the training", 24, 0.0),
        ("by the training", 96, 0.0),
        ("as they are", 24, 0.0),
        ("row by row", 24, 0.0),
        ("half by half", 48, None),
        ("half by half", 96, None),
        ("noise", 24, 0.0),
        ("the training's own", 24, None),
    ],
)
def test_statistics_of_their_own(capturing: Any, held_out: str, batch: int, share: float | None) -> None:
    wanted = [] if share is None else [share] * 2  # of three evaluations: later ones are not summed up
    assert found(capturing, HELD_OUT_INPUTS_OWN_STATISTICS, HELD_OUT[held_out], batch=batch) == wanted
