"""Optimizers with common parameters: by one gradient, by gradients against one another; none for shared encoders."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.optimizers.shared_parameters import MOST_LOOKS, SharedParameters

Optimizer = torch.optim.Optimizer
functional = nn.functional


class Training:
    """A training that is looked at at each step. It counts backward passes, as the hook does."""

    def __init__(self, *modules: nn.Module) -> None:
        self.passes = 0
        self.seen = SharedParameters(Watch(passes=lambda: self.passes))
        for module in modules:
            module.register_forward_pre_hook(lambda module, _: self.seen.outermost_called(module))

    def backward(self, loss: torch.Tensor, *optimizers: Optimizer) -> None:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # torch's own omission
        self.passes += 1

    def step(self, *optimizers: Optimizer, is_looked_at: bool = True) -> None:
        for optimizer in optimizers:
            if is_looked_at:
                self.seen.before_step(optimizer)
            optimizer.step()


def adam(*modules: nn.Module) -> Optimizer:
    return torch.optim.Adam([p for module in modules for p in module.parameters()], 1e-2)


def of_two(*, head_alone: bool) -> int:
    """Return the reuses of gradients where the head is in both optimizers, or in one."""
    body, head = nn.Linear(4, 8), nn.Linear(8, 1)
    training, first, second = Training(body, head), adam(*((body,) if head_alone else (body, head))), adam(head)
    for _ in range(MOST_LOOKS + 2):
        training.backward(head(body(torch.randn(8, 4))).square().mean(), first, second)
        training.step(first, second)
    return training.seen.of(second)[0]


def of_phases() -> int:
    """Return the reuses of gradients where one optimizer takes over from another."""
    model = nn.Linear(4, 1)
    training, first, second = Training(model), adam(model), torch.optim.SGD(model.parameters(), 0.1)
    for optimizer in (first, second):
        for _ in range(MOST_LOOKS + 2):
            training.backward(model(torch.randn(8, 4)).square().mean(), optimizer)
            training.step(optimizer)
    return training.seen.of(second)[0]


def of_closures() -> int:
    """Return the reuses where L-BFGS, whose gradients come within its step, is called in turns with another one."""
    model = nn.Linear(4, 1)
    training, first, second = Training(model), adam(model), torch.optim.LBFGS(model.parameters())
    for _ in range(MOST_LOOKS + 2):
        training.backward(model(torch.randn(8, 4)).square().mean(), first)
        training.step(first)
        training.seen.before_step(second)
    return training.seen.of(second)[0]


@pytest.mark.parametrize(
    ("reuses", "expected"),
    [
        pytest.param(lambda: of_two(head_alone=False), 3, id="the head in both"),
        pytest.param(lambda: of_two(head_alone=True), 0, id="each its own"),
        pytest.param(of_phases, 0, id="one after the other"),
        pytest.param(of_closures, 0, id="L-BFGS in turns with another"),
    ],
)
def test_gradients_that_step_twice(reuses: Callable[[], int], expected: int) -> None:
    assert reuses() == expected


def of_a_game(*, shares: bool, lowers: bool = True) -> float | None:
    """Return the cosine of a generator's optimizer that holds its judge's parameters, too, or its own alone."""
    torch.manual_seed(0)
    maker, judge = (
        nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)),
        nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1)),
    )
    training, of_judge = Training(maker, judge), adam(judge)
    of_maker = adam(maker, judge) if shares else adam(maker)
    sign = 1 if lowers else -1
    for step in range(10 * (MOST_LOOKS + 2)):
        is_looked_at = step % 10 == 0
        made, real = maker(torch.randn(32, 4)), torch.randn(32, 2) + 6
        loss = functional.softplus(-judge(real)).mean() + functional.softplus(judge(made.detach())).mean()
        training.backward(loss, of_judge)
        training.step(of_judge, is_looked_at=is_looked_at)
        training.backward(functional.softplus(-sign * judge(made)).mean(), of_maker)
        training.step(of_maker, is_looked_at=is_looked_at)
    return training.seen.of(of_maker)[1]


def of_an_autoencoder() -> float | None:
    """Return the cosine for an encoder that two aims share: they oppose one another, and no judge is shared."""
    torch.manual_seed(0)
    encoder, decoder, judge = nn.Linear(6, 3), nn.Linear(3, 6), nn.Linear(3, 1)
    training = Training(encoder, decoder, judge)
    whole, of_judge, of_encoder = adam(encoder, decoder), adam(judge), adam(encoder)
    for _ in range(MOST_LOOKS + 2):
        data = torch.randn(32, 6)
        training.backward((decoder(encoder(data)) - data).square().mean(), whole)
        training.step(whole)
        codes = encoder(data)
        training.backward((judge(torch.randn(32, 3)) - judge(codes.detach())).mean(), of_judge)
        training.step(of_judge)
        training.backward(judge(encoder(data)).mean(), of_encoder)
        training.step(of_encoder)
    return training.seen.of(whole)[1]


def of_two_tasks() -> float | None:
    """Return the cosine for a head that the losses of two encoders share."""
    torch.manual_seed(0)
    one, two, head = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 1)
    training, first, second = Training(one, two, head), adam(one, head), adam(head)
    for _ in range(MOST_LOOKS + 2):
        data = torch.randn(32, 4)
        for encoder, optimizer in ((one, first), (two, second)):
            training.backward((head(encoder(data)) - 1).square().mean(), optimizer)
            training.step(optimizer)
    return training.seen.of(first)[1]


@pytest.mark.parametrize(
    ("cosine", "is_against"),
    [
        pytest.param(lambda: of_a_game(shares=True), True, id="a generator that holds its judge"),
        pytest.param(lambda: of_a_game(shares=False), False, id="a generator alone"),
        pytest.param(lambda: of_a_game(shares=True, lowers=False), False, id="players with one aim"),
        pytest.param(of_an_autoencoder, False, id="an encoder of two aims"),
        pytest.param(of_two_tasks, False, id="a head of two encoders"),
    ],
)
def test_gradients_against_one_another(cosine: Callable[[], float | None], is_against: bool) -> None:
    found = cosine()
    assert (found is not None and found < -0.3) == is_against


def test_looking_changes_no_bit() -> None:
    def weights(*, is_watched: bool) -> torch.Tensor:
        torch.manual_seed(0)
        body, head = nn.Linear(4, 8), nn.Linear(8, 1)
        training, first, second = Training(body, head), adam(body, head), adam(head)
        for _ in range(2 * MOST_LOOKS):
            training.backward(head(body(torch.randn(8, 4))).square().mean(), first, second)
            if is_watched:
                training.step(first, second)
            else:
                first.step()
                second.step()
        return torch.cat([p.detach().flatten() for p in (*body.parameters(), *head.parameters())])

    assert torch.equal(weights(is_watched=True), weights(is_watched=False))
