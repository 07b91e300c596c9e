"""Wrappers of an optimizer, which step it once or several times in their own step: each of theirs is one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import Optimizer

STEPS = 6


class Twice(Optimizer):
    """An optimizer that lets another one step twice."""

    def __init__(self, inner: Optimizer) -> None:
        self.inner = inner
        super().__init__(inner.param_groups, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override] # torch has two forms
        self.inner.step()
        self.inner.step()


class Once(Twice):
    """The same, once."""

    def step(self, closure: Any = None) -> None:
        self.inner.step()


class WithClosures(Twice):
    """The same, with a pass within each step of the other one."""

    def step(self, closure: Any = None) -> None:
        for _ in range(2):
            self.inner.step(closure)


class Raising(Twice):
    """One that fails now and then."""

    def step(self, closure: Any = None) -> None:
        self.inner.step()
        raise ValueError


class Plain:
    """No optimizer of PyTorch, but used like one."""

    def __init__(self, inner: Optimizer) -> None:
        self.inner = inner

    def zero_grad(self) -> None:
        self.inner.zero_grad()

    def step(own) -> None:  # noqa: N805 - as some scripts write it
        own.inner.step()
        own.inner.step()


class Passing(Plain):
    """The same, which hands the closure on, as Lightning's does."""

    def step(self, closure: Any = None) -> None:
        self.inner.step(closure)


def one_step(wrapper: Any, optimizer: Optimizer, closure: Callable[[], Any]) -> None:
    closure()
    wrapper.step()


def with_closure(wrapper: Any, optimizer: Optimizer, closure: Callable[[], Any]) -> None:
    wrapper.step(closure)


def twice_by_the_script(wrapper: Any, optimizer: Optimizer, closure: Callable[[], Any]) -> None:
    closure()
    optimizer.step()
    optimizer.step()


def by_both(wrapper: Any, optimizer: Optimizer, closure: Callable[[], Any]) -> None:
    """Go on without a wrapper whose step has failed."""
    closure()
    with pytest.raises(ValueError):  # noqa: PT011 - our own
        wrapper.step()
    closure()
    optimizer.step()


@pytest.mark.parametrize(
    ("wrap", "step", "count"),
    [
        pytest.param(Once, one_step, STEPS, id="once"),
        pytest.param(Twice, one_step, STEPS, id="twice"),
        pytest.param(WithClosures, with_closure, STEPS, id="twice-with-a-pass-each"),
        pytest.param(Plain, one_step, STEPS, id="no-optimizer-of-pytorch"),
        pytest.param(Passing, with_closure, STEPS, id="no-optimizer-of-pytorch-with-a-closure"),
        pytest.param(lambda inner: inner, one_step, STEPS, id="none"),
        pytest.param(lambda inner: inner, twice_by_the_script, 2 * STEPS, id="twice-by-the-script"),
        pytest.param(Raising, by_both, 2 * STEPS, id="that-fails"),
    ],
)
def test_a_step_of_a_wrapper_is_one(
    wrap: Callable[[Optimizer], Any], step: Callable[..., None], count: int, capturing: Any, read_run: Any
) -> None:
    model = nn.Sequential(nn.Linear(2, 1))
    with capturing(losses=1, weights=1) as store:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        wrapper = wrap(optimizer)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(torch.ones(3, 2)), torch.zeros(3, 1))
            loss.backward()  # type: ignore[no-untyped-call] # torch's own omission
            return loss

        for _ in range(STEPS):
            step(wrapper, optimizer, closure)
    assert set(read_run(store)) == set(range(count))
