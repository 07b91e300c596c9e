"""Modules and data sets with answers of their own: everything is looked at all the same."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, RandomSampler

from tests.training_lib.frameworks.pytorch.statistics.test_readings import capturing, column, opened
from trackside.contracts.run.recorded_names import BATCH

ROWS, STEPS = 64, 8


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.net(values)


class Narrow(Model):
    """As torchrl's losses."""

    def named_parameters(self, recurse: bool = True) -> Iterator[Any]:  # type: ignore[override]
        return super().named_parameters(recurse=recurse)


class NarrowEverywhere(Model):
    def named_parameters(self) -> Iterator[Any]:  # type: ignore[override]
        return iter([(f"net.{name}", each) for name, each in self.net.named_parameters()])

    def named_modules(self) -> Iterator[Any]:  # type: ignore[override]
        return iter([("", self), *((f"net.{name}".rstrip("."), each) for name, each in self.net.named_modules())])

    def parameters(self) -> Iterator[Any]:  # type: ignore[override]
        return self.net.parameters()

    def modules(self) -> Iterator[Any]:
        return iter([self, *self.net.modules()])

    def state_dict(self) -> dict[str, Any]:  # type: ignore[override]
        return self.net.state_dict()

    def train(self) -> NarrowEverywhere:  # type: ignore[override]
        return self

    def eval(self) -> NarrowEverywhere:
        return self


class Empty(Model):
    """Is false."""

    def __len__(self) -> int:
        return 0


class Unhelpful(Model):
    """Raises another error than Python expects for an attribute that is missing."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise KeyError(name) from None


class Rows:
    """Has rows, and no length: PyTorch asks for none where a sampler names the rows."""

    def __getitem__(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        torch_generator = torch.Generator().manual_seed(place)
        return torch.randn(4, generator=torch_generator), torch.tensor(place % 3)


class FailingLength(Rows):
    def __len__(self) -> int:
        raise NotImplementedError


def _train(model: nn.Module, rows: Any) -> list[float]:
    torch.manual_seed(0)
    loader = DataLoader(rows, batch_size=8, sampler=RandomSampler(range(ROWS)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        for values, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(values), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize("rows", [Rows, FailingLength])
@pytest.mark.parametrize("kind", [Model, Narrow, NarrowEverywhere, Empty, Unhelpful])
def test_everything_is_looked_at(
    kind: type[Model], rows: type[Rows], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    model = kind()
    with caplog.at_level(logging.WARNING), capturing(tmp_path / "run", "weights", "gradients", "losses", "buffers"):
        losses = _train(model, rows())
    assert caplog.text == ""
    trial = opened(tmp_path / "run")
    facts = trial.model_facts
    assert facts is not None
    assert [each.name.partition("_")[2] for each in facts.parameters] == [
        "net.0.weight", "net.0.bias", "net.1.weight", "net.1.bias", "net.3.weight", "net.3.bias",
    ]  # fmt: skip
    assert all(each.optimizer for each in facts.parameters)
    name = kind.__name__
    assert len(column(trial, f"gradient/{name}_net.0.weight", "l2")) == len(losses) == 2 * STEPS
    assert len(column(trial, BATCH, "mean")) >= STEPS
