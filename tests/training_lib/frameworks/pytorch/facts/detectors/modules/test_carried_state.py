"""Recurrent layers with the state of other sequences; silent where rows come in order, and for states of their own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.modules.carried_state import ENOUGH, CarriedStates

torch.set_num_threads(1)
ROWS, STEPS, WIDTH = 8, 5, 16
Next = Callable[[Any], Any]


def carried(state: Any) -> Any:
    return tuple(each.detach() for each in state) if isinstance(state, tuple) else state.detach()


def zeros(state: Any) -> Any:
    return tuple(torch.zeros_like(each) for each in state) if isinstance(state, tuple) else torch.zeros_like(state)


def drawn(state: Any) -> Any:
    return tuple(torch.randn_like(each) for each in state) if isinstance(state, tuple) else torch.randn_like(state)


def of_an_encoder(state: Any) -> Any:
    return state


def nothing(_: Any) -> None:
    return None


def trained(layer: nn.RNNBase, following: Next, *, shuffle: bool, calls: int, mode: bool = True) -> int:
    torch.manual_seed(0)
    layer.train(mode)
    seen, state = CarriedStates(Watch()), None
    loader: DataLoader[int] = DataLoader(list(range(ROWS)), shuffle=shuffle)  # type: ignore[arg-type]
    seen.pass_met(iter(loader), None)
    for _ in range(calls):
        values: Tensor = torch.randn(ROWS, STEPS, 4)
        seen.called(layer, (values, state), {})
        _, found = layer(values, state)
        state = following(found)
    return seen.of(layer)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
@pytest.mark.parametrize(
    ("following", "given", "is_carried"),
    [
        pytest.param(carried, {"shuffle": True, "calls": 4}, True, id="carried"),
        pytest.param(carried, {"shuffle": True, "calls": 3}, False, id="too early to tell"),
        pytest.param(carried, {"shuffle": False, "calls": 5}, False, id="sequences that go on"),
        pytest.param(carried, {"shuffle": True, "calls": 5, "mode": False}, False, id="in eval mode"),
        pytest.param(zeros, {"shuffle": True, "calls": 5}, False, id="zeros"),
        pytest.param(drawn, {"shuffle": True, "calls": 5}, False, id="drawn"),
        pytest.param(of_an_encoder, {"shuffle": True, "calls": 5}, False, id="with gradients"),
        pytest.param(nothing, {"shuffle": True, "calls": 5}, False, id="none"),
    ],
)
def test_states(kind: type[nn.RNNBase], following: Next, given: dict[str, Any], is_carried: bool) -> None:
    layer = kind(4, WIDTH, batch_first=True)
    assert trained(layer, following, **given) == (ENOUGH if is_carried else 0)


def test_without_a_sampler() -> None:
    seen = CarriedStates(Watch())
    seen.pass_met(SimpleNamespace(), None)
    seen.called(nn.GRU(4, WIDTH), (torch.zeros(1), torch.full((1, ROWS, WIDTH), 0.5)), {})
    assert seen.changes() == 0
