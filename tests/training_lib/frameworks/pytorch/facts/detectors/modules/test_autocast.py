"""The precision of layers while a training uses autocast, in trainings of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.contracts.observations import AUTOCAST
from trackside.trial.trial import Trial


def cast(*, enabled: bool = True) -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled)


class Net(nn.Module):
    """A body and a head."""

    def __init__(self, head: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), head or nn.Linear(8, 3)

    def forward(self, values: torch.Tensor) -> Any:
        return self.head(torch.relu(self.body(values)))


class Careful(Net):
    """A model that computes its head in full precision."""

    def forward(self, values: torch.Tensor) -> Any:
        found = torch.relu(self.body(values))
        with cast(enabled=False):
            return self.head(found.float())


class Upcast(nn.Linear):
    """A class of the script's own that computes in full precision."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        with cast(enabled=False):
            return super().forward(values.float())


class Replaced(nn.Module):
    """A layer within whose call another function stands for `linear`."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 3)

    def forward(self, values: torch.Tensor) -> Any:
        original = functional.linear

        def own(inputs: torch.Tensor, *others: torch.Tensor) -> Any:
            with cast(enabled=False):
                return original(inputs.float(), *others)

        functional.linear = own
        try:
            return self.inner(values)
        finally:
            functional.linear = original


def whole(net: nn.Module, values: torch.Tensor) -> Any:
    with cast():
        return net(values)


def with_head_outside(net: Any, values: torch.Tensor) -> Any:
    with cast():
        found = net.body(values)
    return net.head(torch.relu(found).float())


def after_a_trial(net: nn.Module, values: torch.Tensor) -> Any:
    net(values)
    return whole(net, values)


def after_a_meta_tensor(net: nn.Module, values: torch.Tensor) -> Any:
    nn.Linear(4, 8, device="meta")(values.to("meta"))
    return whole(net, values)


def hooked() -> nn.Module:
    net = Net()
    net.head.register_forward_hook(lambda _, __, output: output.float())
    return net


@pytest.mark.parametrize(
    ("build", "call", "expected"),
    [
        pytest.param(Net, whole, {"body": "half", "head": "half"}, id="all-within"),
        pytest.param(Net, with_head_outside, {"body": "half", "head": "outside"}, id="a-head-outside"),
        pytest.param(
            lambda: Net(Replaced()), whole, {"body": "half", "head.inner": "bypassed"}, id="replaced-function"
        ),
        pytest.param(Net, after_a_trial, {"body": "half", "head": "half"}, id="called-outside-once"),
        pytest.param(Net, after_a_meta_tensor, {"body": "half", "head": "half"}, id="a-device-without-autocast"),
        pytest.param(Careful, whole, {"body": "half"}, id="off-on-purpose"),
        pytest.param(lambda: Net(Upcast(8, 3)), whole, {"body": "half"}, id="a-class-of-its-own"),
        pytest.param(hooked, whole, {"body": "half"}, id="a-hook-of-the-script"),
        pytest.param(lambda: Net(nn.LayerNorm(8)), whole, {"body": "half"}, id="a-norm-in-full-precision"),
        pytest.param(Net, lambda n, v: n(v), {}, id="no-autocast"),
        pytest.param(lambda: Net().bfloat16(), lambda n, v: n(v.bfloat16()), {}, id="half-weights"),
        pytest.param(lambda: Net().double(), lambda n, v: whole(n, v.double()), {}, id="double"),
    ],
)
def test_the_precision_of_layers(
    capturing: Any, build: Callable[[], Any], call: Callable[..., Any], expected: dict[str, str]
) -> None:
    with capturing(model_inputs=1) as store:
        net = build()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(3):
            call(net, torch.randn(6, 4)).float().pow(2).mean().backward()
            optimizer.step()
    trial = Trial(store, store)
    trial.refresh()
    found = trial.parts.facts.revisions("worker_0")[-1]
    assert {module.name: AUTOCAST.of(module) for module in found.modules if AUTOCAST.of(module)} == expected
