"""Inputs with neighbours in another order of the axes; silent in the right order, for noise, tables and textures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.modules.neighbours import ENOUGH, Neighbours

torch.set_num_threads(1)
ROWS, STEPS, SIDE = 24, 40, 20


def pictures() -> Tensor:
    """Return smooth pictures, shape (rows, channels, height, width)."""
    return functional.interpolate(torch.randn(ROWS, 3, 5, 5), size=SIDE, mode="bilinear") + 0.05 * torch.randn(SIDE)


def as_stored(found: Tensor) -> Tensor:
    return found.permute(0, 2, 3, 1).contiguous().view(found.shape)


def series(width: int = 2) -> Tensor:
    """Return smooth series, shape (rows, steps, width)."""
    places = torch.linspace(0, 8, STEPS)[None, :, None]
    return torch.sin(places * (1 + torch.rand(ROWS, 1, width)) + 6 * torch.rand(ROWS, 1, width))


def stripes() -> Tensor:
    phase = torch.randint(3, (ROWS, 1, 1, 1))
    return ((torch.arange(SIDE) + phase) % 3 == 0).float().expand(ROWS, 3, SIDE, SIDE)


def table() -> Tensor:
    return torch.randn(4 * STEPS, STEPS, 1) + 5 * torch.randn(STEPS, 1)


def market() -> Tensor:
    return torch.randn(ROWS, STEPS, 1) + 0.2 * torch.randn(ROWS, STEPS, 5)


def windows() -> Tensor:
    return torch.randn(ROWS + STEPS).cumsum(0).unfold(0, STEPS, 1)[:ROWS, :, None]


CONV, CONV1 = nn.Conv2d(3, 4, 3), nn.Conv1d(2, 4, 3)
FIRST, SECOND = nn.GRU(2, 4, batch_first=True), nn.LSTM(2, 4)


@pytest.mark.parametrize(
    ("module", "given", "order"),
    [
        pytest.param(CONV, lambda: as_stored(pictures()), "rows, columns, channels", id="pictures by view"),
        pytest.param(CONV1, lambda: series().reshape(ROWS, 2, STEPS), "steps, channels", id="series by view"),
        pytest.param(FIRST, lambda: series().transpose(0, 1).reshape(ROWS, STEPS, 2), "steps, rows", id="a batch"),
        pytest.param(SECOND, lambda: series().view(STEPS, ROWS, 2), "rows, steps", id="for a layer with steps first"),
        pytest.param(
            FIRST, lambda: series(8).transpose(1, 2).reshape(ROWS, STEPS, 8), "channels, steps", id="channels by view"
        ),
        pytest.param(CONV, pictures, "", id="pictures"),
        pytest.param(CONV, lambda: pictures().to(memory_format=torch.channels_last), "", id="channels last in memory"),
        pytest.param(CONV, lambda: pictures()[:, :1].expand(-1, 3, -1, -1), "", id="grey pictures"),
        pytest.param(CONV, stripes, "", id="stripes"),
        pytest.param(CONV, lambda: torch.randn(ROWS, 3, SIDE, SIDE), "", id="noise"),
        pytest.param(CONV, lambda: torch.ones(ROWS, 3, SIDE, SIDE), "", id="constant"),
        pytest.param(CONV, lambda: pictures().masked_fill(torch.rand(SIDE) < 0.1, torch.nan), "", id="not finite"),
        pytest.param(CONV1, lambda: series().transpose(1, 2), "", id="series with steps last"),
        pytest.param(FIRST, series, "", id="series with the batch first"),
        pytest.param(SECOND, lambda: series().transpose(0, 1), "", id="series with the steps first"),
        pytest.param(FIRST, table, "", id="a table"),
        pytest.param(FIRST, market, "", id="channels that move together"),
        pytest.param(FIRST, windows, "", id="windows in order"),
        pytest.param(nn.Linear(2, 4), lambda: series().transpose(0, 1), "", id="another layer"),
        pytest.param(FIRST, lambda: series()[:, 0], "", id="one series"),
    ],
)
def test_inputs(module: nn.Module, given: Callable[[], Tensor], order: str) -> None:
    torch.manual_seed(0)
    seen = Neighbours(Watch())
    for _ in range(ENOUGH):
        seen.called(module, (given(),), {})
    assert seen.of(module) == order
    assert seen.changes() == bool(order)


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([True, True], id="too few calls"),
        pytest.param([True, True, False, True, True], id="not in a row"),
    ],
)
def test_fewer_calls_show_nothing(calls: list[bool]) -> None:
    torch.manual_seed(0)
    seen = Neighbours(Watch())
    for is_viewed in calls:
        seen.called(CONV, (as_stored(pictures()) if is_viewed else pictures(),), {})
    assert not seen.of(CONV)


@pytest.mark.parametrize("is_trained", [True, False], ids=["what a layer gave", "an evaluation"])
def test_what_is_left_alone(is_trained: bool) -> None:
    torch.manual_seed(0)
    seen = Neighbours(Watch())
    with torch.set_grad_enabled(is_trained):
        for _ in range(ENOUGH):
            seen.called(CONV, (as_stored(pictures()).requires_grad_(is_trained),), {})
    assert not seen.of(CONV)
