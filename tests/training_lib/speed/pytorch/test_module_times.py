"""The times of modules on sampled steps, by a clock that the modules themselves move."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from trackside.capture.ground.guard import Guard
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.modules.source import TrainedModules
from trackside.profiling.phase_clock import PhaseClock
from trackside.records.machine.performance_facts import ModuleTimes
from trackside.speed.pytorch.module_times import ModuleTimer
from trackside.speed.pytorch.step_samples import StepSamples


@dataclass
class Clock:
    """A clock that stands still by itself."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class _Passes(torch.autograd.Function):
    """The identity, which takes a time in each direction."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, clock: Clock, forward: float, backward: float) -> torch.Tensor:
        clock.now += forward
        ctx.clock, ctx.seconds = clock, backward
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.clock.now += ctx.seconds
        return gradients[0], None, None, None


class Slow(nn.Module):
    """A layer that takes a time in each direction."""

    def __init__(self, clock: Clock, forward: float, backward: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.clock, self.seconds = clock, (forward, backward)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        passed: torch.Tensor = _Passes.apply(x * self.scale, self.clock, *self.seconds)
        return passed


class Twice(nn.Module):
    """A model that calls a layer twice, and does something of its own between."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.layer, self.clock = Slow(clock, 1.0, 2.0), clock

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        self.clock.now += 10.0
        y: torch.Tensor = self.layer(x)
        return y


class Checkpointed(nn.Module):
    """A model that computes its layer again in the backward pass."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.first, self.layer = Slow(clock, 1.0, 2.0), Slow(clock, 4.0, 8.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = checkpoint(self.layer, self.first(x), use_reentrant=False)
        return y


class Failing(nn.Module):
    """A model whose layer raises, which the model survives."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.bad, self.good = Raising(clock), Slow(clock, 1.0, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with suppress(ValueError):
            self.bad(x)
        y: torch.Tensor = self.good(x)
        return y


class Raising(nn.Module):
    """A layer that raises."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.clock.now += 100.0
        raise ValueError


def sequence(clock: Clock) -> nn.Module:
    return nn.Sequential(Slow(clock, 1.0, 2.0), Slow(clock, 4.0, 8.0))


def timed(make: Callable[[Clock], nn.Module], *, steps: int = 2, between: str = "") -> dict[str, ModuleTimes]:
    """Train a model, and return the times of its modules."""
    clock, guard = Clock(), Guard()
    model = make(clock)
    names = ParameterNames()
    modules = TrainedModules(names)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    modules.optimizer_created(optimizer)
    fuse = Fuse(guard, "timing modules")
    timer = ModuleTimer(modules, fuse=fuse, read=clock)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()

    step()
    call = nn.Module.__call__
    timer.start()
    for _ in range(steps):
        step()
        if between == "evaluation":
            with torch.no_grad():
                model(torch.ones(2, 3))
    timer.stop()
    step()
    assert nn.Module.__call__ is call
    assert not fuse.is_blown
    return {one.name: one for one in timer.times(steps)}


@pytest.mark.parametrize(
    ("make", "between", "expected"),
    [
        pytest.param(
            sequence, "", {"Sequential": (1, 5, 0, 10), "0": (1, 1, 1, 2), "1": (1, 4, 4, 8)}, id="a sequence"
        ),
        pytest.param(Twice, "", {"Twice": (1, 12, 10, 4), "layer": (2, 2, 2, 4)}, id="a layer twice"),
        pytest.param(
            sequence, "evaluation", {"Sequential": (1, 5, 0, 10), "0": (1, 1, 1, 2), "1": (1, 4, 4, 8)},
            id="an evaluation counts for nothing",
        ),
        pytest.param(
            Checkpointed, "", {"Checkpointed": (1, 5, 0, 10), "first": (1, 1, 1, 2), "layer": (1, 4, 4, 8)},
            id="called again in the backward pass",
        ),
        pytest.param(Failing, "", {"Failing": (1, 101, 100, 2), "good": (1, 1, 1, 2)}, id="a layer that raises"),
    ],
)  # fmt: skip
def test_calls_and_gradients_are_timed(
    make: Callable[[Clock], nn.Module], between: str, expected: dict[str, tuple[float, ...]]
) -> None:
    found = timed(make, between=between)
    assert {name: (one.calls, one.forward, one.forward_own, one.backward) for name, one in found.items()} == expected
    assert {one.kind for one in found.values()} <= {"Sequential", "Slow", "Twice", "Checkpointed", "Failing"}


def test_a_graph_that_is_kept_is_not_timed_later() -> None:
    clock = Clock()
    model = Slow(clock, 1.0, 2.0)
    modules = TrainedModules(ParameterNames())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    modules.optimizer_created(optimizer)
    timer = ModuleTimer(modules, fuse=Fuse(Guard(), "timing modules"), read=clock)
    timer.start()
    loss = model(torch.ones(2, 3)).sum()
    timer.stop()
    loss.backward()
    (found,) = timer.times(1)
    assert (found.forward, found.backward) == (1.0, 0.0)


def test_weights_are_the_same_with_and_without() -> None:
    def weights(*, is_timed: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
        modules = TrainedModules(ParameterNames())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        modules.optimizer_created(optimizer)
        timer = ModuleTimer(modules, fuse=Fuse(Guard(), "timing modules"))
        if is_timed:
            timer.start()
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().sum().backward()
            optimizer.step()
        timer.remove()
        return [parameter.detach() for parameter in model.parameters()]

    for one, other in zip(weights(is_timed=True), weights(is_timed=False), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        pytest.param(0, 5, id="nothing trained yet"),
        pytest.param(20, 5, id="few modules"),
        pytest.param(399, 2, id="of half the modules two steps"),
        pytest.param(1500, 1, id="more than at a time"),
    ],
)
def test_of_many_modules_fewer_steps_are_sampled(layers: int, expected: int) -> None:
    modules = TrainedModules(ParameterNames())
    samples = StepSamples(
        modules, clock=PhaseClock(), fuse=Fuse(Guard(), "timing modules"), is_compiler_used=lambda: True
    )
    if layers:
        model = nn.Sequential(nn.Linear(1, 1), *(nn.Identity() for _ in range(layers - 1)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        modules.optimizer_created(optimizer)
        assert len([*modules.roots()]) == 1
    assert samples.next_steps == expected
