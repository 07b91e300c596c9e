"""Batches that no backward pass used: loops that skip some by hand, and loops that only draw in another way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from trackside.contracts.run.recorded_names import BATCHES_WITHOUT_STEP, SKIPPED_BEFORE
from trackside.trial.trial import Trial

torch.set_num_threads(1)
ROWS = 48  # and as many batches, of one row each
Step = Callable[[torch.Tensor, torch.Tensor], None]


class Loop:
    """A model, its optimizer, and the loader of its rows; some rows have a loss that is not finite."""

    def __init__(self, broken: set[int]) -> None:
        torch.manual_seed(0)
        self.net = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.01)
        x = torch.randn(ROWS, 3)
        x[sorted(broken)] = math.inf
        self.loader = DataLoader(TensorDataset(x, torch.randn(ROWS, 1)))

    def loss(self, batch: Any) -> torch.Tensor:
        return functional.mse_loss(self.net(batch[0]), batch[1])

    def step(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def guarded(loop: Loop) -> None:
    for _ in range(3):
        for batch in loop.loader:
            loss = loop.loss(batch)
            if not torch.isfinite(loss):
                continue
            loop.step(loss)


def drawn_ahead(loop: Loop) -> None:
    for _ in range(3):
        batches = iter(loop.loader)
        waiting: Any = next(batches)
        while waiting is not None:
            batch, waiting = waiting, next(batches, None)
            loss = loop.loss(batch)
            if torch.isfinite(loss):
                loop.step(loss)


def in_pairs(loop: Loop) -> None:
    for _ in range(3):
        batches: Iterator[Any] = iter(loop.loader)
        for one, other in zip(batches, batches, strict=True):
            loop.step(loop.loss(one) + loop.loss(other))


def tried_on_the_data(loop: Loop) -> None:
    for _ in range(3):
        for batch in loop.loader:
            loop.step(loop.loss(batch))
        for batch in loop.loader:
            loop.loss(batch)


def by_other_gradients(loop: Loop) -> None:
    weights = [*loop.net.parameters()]
    for _ in range(3):
        for number, batch in enumerate(loop.loader):
            if number % 2:
                loop.step(loop.loss(batch))
                continue
            for weight, gradient in zip(weights, torch.autograd.grad(loop.loss(batch), weights), strict=True):
                weight.grad = gradient
            loop.optimizer.step()


def accumulated(loop: Loop) -> None:
    for _ in range(3):
        for number, batch in enumerate(loop.loader):
            loop.loss(batch).backward()
            if number % 4 == 3:
                loop.optimizer.step()
                loop.optimizer.zero_grad()


def counts(capturing: Any, run: Callable[[Loop], None], broken: set[int], name: str) -> list[float]:
    with capturing(losses=100) as store:
        run(Loop(broken))
    trial = Trial(store, store)
    trial.refresh()
    columns = trial.columns(name, "mean", last_step=10_000, mode=None)
    return [value for column in columns for value in column.values.tolist()]


SOME = {20, 33, 34}
SKIPPING = [(guarded, SOME, 9), (drawn_ahead, SOME, 9), (guarded, {1, 2, 20}, 7), (guarded, {0, 20, ROWS - 1}, 3)]
OTHERS = [guarded, drawn_ahead, in_pairs, tried_on_the_data, by_other_gradients, accumulated]


@pytest.mark.parametrize(("run", "broken", "count"), SKIPPING)
def test_batches_that_a_loop_skips_are_counted(
    capturing: Any, run: Callable[[Loop], None], broken: set[int], count: int
) -> None:
    assert sum(counts(capturing, run, broken, SKIPPED_BEFORE)) == count


@pytest.mark.parametrize("run", OTHERS)
def test_other_loops_skip_nothing(capturing: Any, run: Callable[[Loop], None]) -> None:
    assert counts(capturing, run, set(), SKIPPED_BEFORE) == []


def test_a_row_without_an_end_is_noted(capturing: Any) -> None:
    noted = counts(capturing, guarded, set(range(16, ROWS)), BATCHES_WITHOUT_STEP)
    assert noted == []  # each pass over the data begins with batches that are used
    assert counts(capturing, broken_for_good, set(), BATCHES_WITHOUT_STEP) == [64.0]


def broken_for_good(loop: Loop) -> None:
    """Break the weights within the first pass over the data."""
    for epoch in range(3):
        for number, batch in enumerate(loop.loader):
            loss = loop.loss(batch)
            if torch.isfinite(loss):
                loop.step(loss)
            if (epoch, number) == (0, 20):
                with torch.no_grad():
                    loop.net.weight.fill_(math.nan)
