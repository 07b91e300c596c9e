"""Vectors that are added to the rows of a batch by their place; silent for positions of a sequence and conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.modules.row_places import RowPlaces

torch.set_num_threads(1)
ROWS, PLACES, WIDTH = 12, 6, 8


class Net(nn.Module):
    """Tokens, something that is added to their vectors, and a layer that reads them."""

    def __init__(self, add: Callable[[Net, Tensor, Tensor], Tensor], *, batch_first: bool | None) -> None:
        super().__init__()
        self.add = add
        self.tokens, self.kinds = nn.Embedding(9, WIDTH), nn.Embedding(50, WIDTH)
        self.table = nn.Parameter(torch.randn(40, 1, WIDTH))
        self.drop = nn.Dropout(0.2)
        layer = nn.LSTM(WIDTH, WIDTH, batch_first=bool(batch_first))
        self.layer = nn.Linear(WIDTH, WIDTH) if batch_first is None else layer

    def forward(self, tokens: Tensor, kinds: Tensor) -> Any:
        return self.layer(self.add(self, self.tokens(tokens), kinds))


def by_row(net: Net, values: Tensor, _: Tensor) -> Tensor:
    return values + net.table[: values.size(0)]


def by_row_with_dropout(net: Net, values: Tensor, kinds: Tensor) -> Tensor:
    return net.drop(by_row(net, values, kinds))


def by_place(net: Net, values: Tensor, _: Tensor) -> Tensor:
    return values + net.table[: values.size(1)].transpose(0, 1)


def by_condition(net: Net, values: Tensor, kinds: Tensor) -> Tensor:
    return values + net.kinds(kinds)[:, None]


def by_noise(_net: Net, values: Tensor, _: Tensor) -> Tensor:
    return values + torch.randn(len(values), 1, WIDTH)


def by_mean(_net: Net, values: Tensor, _: Tensor) -> Tensor:
    return values - values.mean(1, keepdim=True)


def to_all(net: Net, values: Tensor, _: Tensor) -> Tensor:
    return values + net.table[0]


def with_nothing(_net: Net, values: Tensor, _: Tensor) -> Tensor:
    return values


@contextmanager
def hearing(seen: RowPlaces, net: Net) -> Iterator[None]:
    def before(module: nn.Module, args: Any) -> None:
        if module is net:
            seen.outermost_called(module)
        seen.called(module, args, {})

    def after(module: nn.Module, _: Any, output: Any) -> None:
        seen.returned(module, output)

    hooks = [register_module_forward_pre_hook(before), register_module_forward_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize(
    ("add", "batch_first", "loader", "calls", "seen"),
    [
        pytest.param(by_row, True, 0, 3, "layer", id="along the batch"),
        pytest.param(by_row_with_dropout, True, 0, 3, "drop", id="with a dropout after it"),
        pytest.param(by_row, None, ROWS, 3, "layer", id="by the loader's batch"),
        pytest.param(by_row, True, 0, 2, "", id="twice"),
        pytest.param(by_row, False, 0, 5, "", id="sequences come first"),
        pytest.param(by_row, None, 0, 5, "", id="an axis that is not known"),
        pytest.param(by_row, None, PLACES, 5, "", id="a loader with the batch at the second axis"),
        pytest.param(by_place, True, ROWS, 5, "", id="along the sequence"),
        pytest.param(by_condition, True, ROWS, 5, "", id="a condition of each row"),
        pytest.param(by_noise, True, ROWS, 5, "", id="noise of each row"),
        pytest.param(by_mean, True, ROWS, 5, "", id="less the mean of each row"),
        pytest.param(to_all, True, ROWS, 5, "", id="a vector for all"),
        pytest.param(with_nothing, True, ROWS, 5, "", id="nothing added"),
    ],
)
def test_rows(add: Any, batch_first: bool | None, loader: int, calls: int, seen: str) -> None:
    torch.manual_seed(0)
    net, found = Net(add, batch_first=batch_first), RowPlaces(Watch())
    if loader:
        found.pass_met(object(), [torch.zeros(loader, 2)])
    with hearing(found, net):
        for _ in range(calls):
            net(torch.randint(9, (ROWS, PLACES)), torch.randint(50, (ROWS,)))
            with torch.no_grad():
                net.table.add_(0.01 * torch.randn_like(net.table))
    found.changes()
    assert {name: found.of(module) for name, module in net.named_modules() if found.of(module)} == (
        {seen: ROWS} if seen else {}
    )


def test_the_same_rows_again_tell_nothing() -> None:
    torch.manual_seed(0)
    net, found = Net(by_condition, batch_first=True), RowPlaces(Watch())
    tokens, kinds = torch.randint(9, (ROWS, PLACES)), torch.randint(50, (ROWS,))
    with hearing(found, net):
        for _ in range(6):
            net(tokens, kinds)
    found.changes()
    assert not any(map(found.of, net.modules()))
