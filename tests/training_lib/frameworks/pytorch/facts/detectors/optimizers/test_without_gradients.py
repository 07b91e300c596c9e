"""Optimizers that step, and of whose parameters none ever had a gradient."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.optimizers.without_gradients import WithoutGradients

Act = Callable[[torch.nn.Parameter, int], None]
STEPS = 100


def computes_at(*steps: int) -> Act:
    def act(parameter: torch.nn.Parameter, step: int) -> None:
        parameter.grad = torch.ones(3) if step in steps else None

    return act


def is_frozen_until(thawed: int) -> Act:
    def act(parameter: torch.nn.Parameter, step: int) -> None:
        parameter.requires_grad_(step >= thawed)

    return act


@pytest.mark.parametrize(
    ("act", "steps", "expected"),
    [
        pytest.param(computes_at(), STEPS, True, id="never one"),
        pytest.param(is_frozen_until(40), STEPS, True, id="none since it is thawed"),
        pytest.param(computes_at(), 30, False, id="too early to tell"),
        pytest.param(is_frozen_until(80), STEPS, False, id="thawed a while ago"),
        pytest.param(is_frozen_until(STEPS), STEPS, False, id="frozen"),
        pytest.param(computes_at(*range(STEPS)), STEPS, False, id="always one"),
        pytest.param(computes_at(0), STEPS, False, id="at the first step alone"),
        pytest.param(computes_at(90), STEPS, False, id="late"),
    ],
)
def test_optimizers_that_never_had_a_gradient(act: Act, steps: int, expected: bool) -> None:
    now = 0
    seen = WithoutGradients(Watch(steps=lambda: now))
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], 0.1)
    for now in range(0, steps, 10):
        act(parameter, now)
        seen.before_step(optimizer)
    assert seen.of(optimizer) is expected


def test_an_optimizer_that_was_not_met_is_unknown() -> None:
    assert not WithoutGradients(Watch()).of(torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], 0.1))
