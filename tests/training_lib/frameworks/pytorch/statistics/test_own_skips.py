"""An optimizer that skips within its own step is known by what it does; one that uses broken gradients is found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.optimizer import Optimizer

from trackside.capture.session import SessionOptions
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.run.recorded_names import CLIPPING, SKIPPED_BEFORE, SKIPPED_STEP, UPDATE_SIZE
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.rules.program.passes_without_step import PassesWithoutStep
from trackside.rules.tensors.exploding_tensor import ExplodingTensor
from trackside.storage.memory import MemoryStore
from trackside.trial.trial import Trial
from trackside.trial.window import Window

STEPS = 60
BAD = (11, 12, 40, 57)
SCALE = 2.0**15
EVERY_STEP = StatisticsRequest(budget=1.0, dear_interval=1, dense_start_steps=10**6)


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def losses(net: nn.Module) -> Iterator[torch.Tensor]:
    for number in range(STEPS):
        rows, labels = torch.randn(8, 4), torch.randn(8, 2)
        yield functional.mse_loss(net(rows), labels * math.inf if number in BAD else labels)


def finite_losses(net: nn.Module) -> Iterator[torch.Tensor]:
    return (functional.mse_loss(net(torch.randn(8, 4)), torch.randn(8, 2)) for _ in range(STEPS))


def are_finite(parameters: Any) -> bool:
    return all(bool(torch.isfinite(p.grad).all()) for p in parameters if p.grad is not None)


def overflow(net: Any, number: int) -> None:
    """Spoil one element of the gradients, as half precision does; the loss stays as it is."""
    if number in BAD:
        net[0].weight.grad[1, 2] = math.inf


class ByHand(Optimizer):
    """Gradient descent that decides by itself whether it makes a step."""

    def __init__(self, parameters: Any, rate: float) -> None:
        super().__init__(parameters, {"lr": rate})

    @property
    def held(self) -> list[Any]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else closure()
        if self.is_made():
            with torch.no_grad():
                for parameter in self.held:
                    parameter.sub_(self.param_groups[0]["lr"] * parameter.grad)
        return loss

    def is_made(self) -> bool:
        raise NotImplementedError


class Careful(ByHand):
    """Returns early where a gradient is not finite."""

    def is_made(self) -> bool:
        return are_finite(self.held)


def returns_early() -> None:
    net = model()
    optimizer = Careful(net.parameters(), 0.1)
    for loss in losses(net):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def returns_early_of_finite_losses() -> None:
    net = model()
    optimizer = Careful(net.parameters(), 0.1)
    for number, loss in enumerate(finite_losses(net)):
        optimizer.zero_grad()
        loss.backward()
        overflow(net, number)
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()


def returns_early_with_a_closure() -> None:
    net = model()
    optimizer = Careful(net.parameters(), 0.1)
    for loss in losses(net):

        def closure(loss: torch.Tensor = loss) -> torch.Tensor:
            optimizer.zero_grad()
            loss.backward()
            return loss

        optimizer.step(closure)


def one_of_two_returns_early() -> None:
    """The optimizers of a discriminator and a generator, one after the other."""
    nets = [model(), model()]
    optimizers = [Careful(net.parameters(), 0.1) for net in nets]
    for number, pair in enumerate(zip(finite_losses(nets[0]), finite_losses(nets[1]), strict=True)):
        for net, optimizer, loss in zip(nets, optimizers, pair, strict=True):
            optimizer.zero_grad()
            loss.backward()
            if net is nets[1]:
                overflow(net, number)
            optimizer.step()


class OfHalfPrecision:
    """Weights in half precision and copies of them in single, as hand-made mixed precision has them.

    Args:
        net: The model.
        keeps: True if the gradients of the copies stay until they are written over.
    """

    def __init__(self, net: nn.Module, *, keeps: bool = False) -> None:
        self.trained, self._keeps, self.scale = [*net.parameters()], keeps, SCALE
        self.copies = [nn.Parameter(p.detach().clone().float()) for p in self.trained]
        self.inner = torch.optim.AdamW(self.copies, 0.01)

    def zero_grad(self) -> None:
        for parameter in self.trained:
            parameter.grad = None

    def step(self) -> None:
        if not are_finite(self.trained):
            self.scale /= 2
            return
        for copy, parameter in zip(self.copies, self.trained, strict=True):
            assert parameter.grad is not None
            gradient = parameter.grad.float() / self.scale
            if copy.grad is None:
                copy.grad = gradient
            else:
                copy.grad.copy_(gradient)
        self.inner.step()
        if not self._keeps:
            self.inner.zero_grad()
        for copy, parameter in zip(self.copies, self.trained, strict=True):
            parameter.data.copy_(copy.data)


def of_half_precision(*, keeps: bool) -> None:
    net = model()
    optimizer = OfHalfPrecision(net, keeps=keeps)
    for loss in losses(net):
        optimizer.zero_grad()
        (loss * optimizer.scale).backward()
        optimizer.step()


class Wrapper(Optimizer):
    """An optimizer of PyTorch around that of the copies."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(net.parameters(), {"lr": 0.01})
        self.half = OfHalfPrecision(net)

    def step(self, closure: Any = None) -> Any:
        assert closure is None
        self.half.step()


def within_a_wrapper() -> None:
    net = model()
    optimizer = Wrapper(net)
    for loss in losses(net):
        optimizer.zero_grad()
        (loss * optimizer.half.scale).backward()
        optimizer.step()


SKIPPING = [
    pytest.param(returns_early, id="returns-early"),
    pytest.param(returns_early_of_finite_losses, id="returns-early-of-finite-losses"),
    pytest.param(returns_early_with_a_closure, id="returns-early-with-a-closure"),
    pytest.param(one_of_two_returns_early, id="one-of-two-returns-early"),
    pytest.param(lambda: of_half_precision(keeps=False), id="copies-of-weights"),
    pytest.param(lambda: of_half_precision(keeps=True), id="copies-of-weights-that-keep-gradients"),
    pytest.param(within_a_wrapper, id="within-a-wrapper"),
]


def uses(make: Callable[[Any], Optimizer]) -> None:
    net = model()
    optimizer = make(net.parameters())
    for loss in losses(net):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Sanitizing(ByHand):
    """Leaves out the elements that are not finite, and steps."""

    def is_made(self) -> bool:
        for parameter in self.held:
            parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
        return True


class CarefulOfBiases(ByHand):
    """Looks at too few gradients."""

    def is_made(self) -> bool:
        return are_finite(p for p in self.held if p.dim() == 1)


def overflows(make: Callable[[Any], Optimizer], *, most_norm: float | None = None) -> None:
    """Train on finite losses with gradients that overflow, and clip them first if a norm is given."""
    net = model()
    optimizer = make(net.parameters())
    for number, loss in enumerate(finite_losses(net)):
        optimizer.zero_grad()
        loss.backward()
        overflow(net, number)
        if most_norm is not None:
            nn.utils.clip_grad_norm_(net.parameters(), most_norm)
        optimizer.step()


USING = [
    pytest.param(lambda: uses(lambda held: torch.optim.SGD(held, 0.1)), id="sgd"),
    pytest.param(lambda: uses(lambda held: torch.optim.AdamW(held, 0.01)), id="adamw"),
    pytest.param(lambda: uses(lambda held: torch.optim.SGD(held, 0.0)), id="rate-of-zero"),
    pytest.param(lambda: overflows(lambda held: Sanitizing(held, 0.1)), id="sanitized"),
    # An infinite norm clips all finite gradients to zero, and leaves one NaN.
    pytest.param(lambda: overflows(lambda held: torch.optim.SGD(held, 0.1), most_norm=5.0), id="clipped-to-one-nan"),
    pytest.param(lambda: overflows(lambda held: CarefulOfBiases(held, 0.1)), id="partly-careful"),
]


def recorded(body: Callable[[], None]) -> Trial:
    collections = tuple(CollectionRequest(name, Schedule(1)) for name in ("losses", "gradients"))
    request = CaptureRequest(collections, statistics=EVERY_STEP).to_json()
    store = MemoryStore()
    capture = PyTorchAdapter(
        CaptureEnvironment("memory://run", request, 0, 1), options=SessionOptions(open_store=lambda _: store)
    )
    capture.install()
    try:
        body()
    finally:
        capture.uninstall()
    trial = Trial(store, store)
    trial.refresh()
    return trial


def numbers(trial: Trial, name: str, statistic: str = "mean") -> np.ndarray:
    found = [column.values for column in trial.columns(name, statistic, last_step=STEPS, mode="TRAIN")]
    return np.concatenate(found) if found else np.empty(0)


def steps_with_findings(trial: Trial, rule: Any) -> list[int]:
    windows = [Window(trial, step=step, mode="TRAIN", now=0.0, newest_step_at=0.0) for step in range(STEPS)]
    return [window.step for window in windows if list(rule.check(window))]


@pytest.mark.parametrize("body", SKIPPING)
def test_what_led_to_a_step_that_the_optimizer_skipped_is_not_judged(body: Callable[[], None]) -> None:
    trial = recorded(body)
    assert steps_with_findings(trial, ExplodingTensor()) == []
    for name in trial.tensor_names(collection="losses"):
        assert np.abs(numbers(trial, name)).max() < 100
    skips = [numbers(trial, name).sum() for name in (SKIPPED_STEP, SKIPPED_BEFORE)]
    assert sorted(skips) == [0, len(BAD)]
    assert np.isfinite(numbers(trial, CLIPPING)).all()
    assert (numbers(trial, UPDATE_SIZE) > 0).all()


@pytest.mark.parametrize("body", USING)
def test_broken_gradients_that_are_used_are_found_at_once(body: Callable[[], None]) -> None:
    trial = recorded(body)
    assert steps_with_findings(trial, ExplodingTensor())[0] == BAD[0]
    assert not numbers(trial, SKIPPED_STEP).sum()


def test_skips_from_time_to_time_are_not_in_a_row() -> None:
    trial = recorded(returns_early)
    assert steps_with_findings(trial, PassesWithoutStep(passes=3)) == []


def test_an_optimizer_that_skips_for_good_is_found() -> None:
    def body() -> None:
        net = model()
        optimizer = Careful(net.parameters(), 0.1)
        for number, loss in enumerate(finite_losses(net)):
            optimizer.zero_grad()
            loss.backward()
            overflow(net, max(BAD) if number > BAD[0] else 0)
            optimizer.step()

    trial = recorded(body)
    assert steps_with_findings(trial, PassesWithoutStep(passes=30))[0] == BAD[0] + 30
