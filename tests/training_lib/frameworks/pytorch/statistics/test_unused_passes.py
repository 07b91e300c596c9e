"""Steps that a script skips by hand are dropped and counted; methods that clear gradients by themselves skip none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from trackside.contracts.run.recorded_names import BACKWARD_PASSES, BATCHES_CLEARED, SKIPPED_BEFORE
from trackside.trial.trial import Trial

STEPS = 80
BAD = (11, 12, 40, 77)  # batches: two in a row, one on the short way, one near the end


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for number in range(STEPS):
        labels = torch.randn(8, 2)
        yield torch.randn(8, 4), labels * float("inf") if number in BAD else labels


def loss_of(net: nn.Module, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(net(rows), labels)


def if_finite(**how: bool) -> int:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for rows, labels in batches():
        optimizer.zero_grad(**how)
        loss = loss_of(net, rows, labels)
        loss.backward()
        if torch.isfinite(loss):
            optimizer.step()
    return STEPS - len(BAD)


def if_norm_is_small() -> int:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    for rows, labels in batches():
        loss_of(net, rows, labels.nan_to_num(posinf=1e6, neginf=-1e6)).backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if norm < 1e3:
            optimizer.step()
        optimizer.zero_grad()
    return STEPS - len(BAD)


def within_a_wrapper() -> int:
    """The wrapper of a trainer, which is no optimizer and looks at gradients itself."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step() -> None:
        if all(bool(torch.isfinite(p.grad).all()) for p in net.parameters() if p.grad is not None):
            optimizer.step()
        net.zero_grad()

    for rows, labels in batches():
        loss_of(net, rows, labels).backward()
        step()
    return STEPS - len(BAD)


def of_accumulated_passes() -> int:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for rows, labels in batches():
        for half in range(2):
            (loss_of(net, rows[half::2], labels[half::2]) / 2).backward()
        if all(bool(torch.isfinite(p.grad).all()) for p in net.parameters() if p.grad is not None):
            optimizer.step()
        optimizer.zero_grad()
    return STEPS - len(BAD)


def _finite(labels: torch.Tensor) -> torch.Tensor:
    return labels.nan_to_num(posinf=1.0, neginf=-1.0)


def sharpness_aware() -> int:
    """The loss is computed twice, and the first gradients are cleared."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for rows, labels in batches():
        loss_of(net, rows, _finite(labels)).backward()
        moves = [0.05 * p.grad for p in net.parameters() if p.grad is not None]
        with torch.no_grad():
            for parameter, move in zip(net.parameters(), moves, strict=True):
                parameter.add_(move)
        optimizer.zero_grad()
        loss_of(net, rows, _finite(labels)).backward()
        with torch.no_grad():
            for parameter, move in zip(net.parameters(), moves, strict=True):
                parameter.sub_(move)
        optimizer.step()
        optimizer.zero_grad()
    return STEPS


def surgery_on_tasks() -> int:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for rows, labels in batches():
        sums = [torch.zeros_like(parameter) for parameter in net.parameters()]
        for task in range(2):
            optimizer.zero_grad()
            functional.mse_loss(net(rows)[:, task], _finite(labels)[:, task]).backward()
            sums = [one + p.grad for one, p in zip(sums, net.parameters(), strict=True) if p.grad is not None]
        for parameter, gradient in zip(net.parameters(), sums, strict=True):
            parameter.grad = gradient
        optimizer.step()
    return STEPS


def two_losses() -> int:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for rows, labels in batches():
        optimizer.zero_grad()
        loss_of(net, rows, _finite(labels)).backward()
        if len(rows) % 3:
            functional.l1_loss(net(rows), _finite(labels)).backward()
        optimizer.step()
    return STEPS


def two_optimizers() -> int:
    first, second = model(), model()
    one, other = (torch.optim.SGD(net.parameters(), 0.1) for net in (first, second))
    for number, (rows, labels) in enumerate(batches()):
        for net, optimizer in ((first, one), (second, other)):
            optimizer.zero_grad()
            for _ in range(1 + number % 2):
                loss_of(net, rows, _finite(labels)).backward()
            optimizer.step()
    return STEPS


def an_optimizer_of_a_second_phase() -> int:
    net = model()
    optimizers = [torch.optim.SGD(net[place].parameters(), 0.1) for place in (0, 2)]
    for number, (rows, labels) in enumerate(batches()):
        optimizer = optimizers[number >= STEPS // 2]
        net.requires_grad_(requires_grad=False)
        net[2 if number >= STEPS // 2 else 0].requires_grad_()
        for _ in range(1 + number // 30):
            loss_of(net, rows, _finite(labels)).backward()
        optimizer.step()
        net.zero_grad()
    return STEPS


def closures() -> int:
    """How often LBFGS calls it differs from step to step."""
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), 0.1, max_iter=3, tolerance_change=1e-2)
    for rows, labels in batches():

        def again(rows: torch.Tensor = rows, labels: torch.Tensor = labels) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(net, rows, _finite(labels))
            loss.backward()
            return loss

        optimizer.step(again)
    return STEPS


SKIPPING = [
    pytest.param(if_finite, id="if-finite"),
    pytest.param(lambda: if_finite(set_to_none=False), id="cleared-to-zeros"),
    pytest.param(if_norm_is_small, id="if-norm-is-small"),
    pytest.param(within_a_wrapper, id="within-a-wrapper"),
    pytest.param(of_accumulated_passes, id="of-accumulated-passes"),
]
MAKING_EACH = [
    pytest.param(sharpness_aware, id="sharpness-aware"),
    pytest.param(surgery_on_tasks, id="surgery-on-tasks"),
    pytest.param(two_losses, id="two-losses"),
    pytest.param(two_optimizers, id="two-optimizers"),
    pytest.param(an_optimizer_of_a_second_phase, id="an-optimizer-of-a-second-phase"),
    pytest.param(closures, id="closures"),
]


def recorded(capturing: Any, body: Callable[[], int]) -> tuple[Trial, int]:
    with capturing(losses=20) as store:
        steps = body()
    trial = Trial(store, store)
    trial.refresh()
    return trial, steps


def numbers(trial: Trial, name: str) -> np.ndarray:
    found = [column.values for column in trial.columns(name, "mean", last_step=STEPS, mode="TRAIN")]
    return np.concatenate(found) if found else np.empty(0)


@pytest.mark.parametrize("body", SKIPPING)
def test_what_led_to_a_skipped_step_is_dropped_and_counted(capturing: Any, body: Callable[[], int]) -> None:
    trial, steps = recorded(capturing, body)
    (name,) = trial.tensor_names(collection="losses")
    losses = numbers(trial, name)
    assert len(losses) == steps
    assert np.abs(losses).max() < 100
    assert numbers(trial, SKIPPED_BEFORE).sum() == len(BAD)
    assert len(set(numbers(trial, BACKWARD_PASSES).tolist())) == 1
    for step in range(0, steps, 20):
        assert abs(float(trial.value(name, step=step, worker="worker_0").item())) < 100


@pytest.mark.parametrize("body", MAKING_EACH)
def test_a_method_that_clears_gradients_by_itself_skips_nothing(capturing: Any, body: Callable[[], int]) -> None:
    trial, steps = recorded(capturing, body)
    assert not numbers(trial, SKIPPED_BEFORE).size
    losses = trial.tensor_names(collection="losses")
    ends = [c.steps[-1] for name in losses for c in trial.columns(name, "mean", last_step=STEPS, mode="TRAIN")]
    assert max(ends) == steps - 1


Body = Callable[[nn.Module, torch.optim.Optimizer, DataLoader[Any]], None]
GROUP = 4  # batches of a step


def in_groups(use: Callable[[nn.Module, torch.optim.Optimizer, torch.Tensor, torch.Tensor], None], **how: Any) -> Body:
    """A loop that uses each batch somehow, and steps after each group of them."""

    def body(net: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[Any]) -> None:
        for number, (rows, labels) in enumerate(loader):
            use(net, optimizer, rows, labels)
            if (number + 1) % GROUP == 0:
                if how.get("clips"):
                    nn.utils.clip_grad_norm_(net.parameters(), 0.1)
                optimizer.step()
                if how.get("clears_after"):
                    optimizer.zero_grad()

    return body


def clear_before(net: nn.Module, optimizer: torch.optim.Optimizer, rows: torch.Tensor, labels: torch.Tensor) -> None:
    optimizer.zero_grad()
    (loss_of(net, rows, labels) / GROUP).backward()


def clear_to_zeros(net: nn.Module, optimizer: torch.optim.Optimizer, rows: torch.Tensor, labels: torch.Tensor) -> None:
    optimizer.zero_grad(set_to_none=False)
    loss_of(net, rows, labels).backward()


def add(net: nn.Module, _: torch.optim.Optimizer, rows: torch.Tensor, labels: torch.Tensor) -> None:
    loss_of(net, rows, labels).backward()


def sum_by_hand(net: nn.Module, optimizer: torch.optim.Optimizer, rows: torch.Tensor, labels: torch.Tensor) -> None:
    """Gradients of each batch are clipped and summed up elsewhere, as for privacy."""
    sums = [getattr(p, "total", 0.0) for p in net.parameters()]
    optimizer.zero_grad()
    loss_of(net, rows, labels).backward()
    for parameter, total in zip(net.parameters(), sums, strict=True):
        assert parameter.grad is not None
        parameter.total = total + parameter.grad.clamp(-1, 1)  # type: ignore[attr-defined]
        parameter.grad = parameter.total  # type: ignore[attr-defined]


def attack_first(net: nn.Module, optimizer: torch.optim.Optimizer, rows: torch.Tensor, labels: torch.Tensor) -> None:
    """Rows are moved against the model before it learns from them, each batch by a step of its own."""
    rows = rows.clone().requires_grad_()
    loss_of(net, rows, labels).backward()
    assert rows.grad is not None
    optimizer.zero_grad()
    loss_of(net, (rows + 0.1 * rows.grad.sign()).detach(), labels).backward()
    optimizer.step()
    optimizer.zero_grad()


def of_one_task_each(
    net: nn.Module, optimizer: torch.optim.Optimizer, rows: torch.Tensor, labels: torch.Tensor
) -> None:
    """The gradient of each part is measured, and the sum of all is used."""
    for part in range(GROUP):
        optimizer.zero_grad()
        loss_of(net, rows[part::GROUP], labels[part::GROUP]).backward()
    optimizer.zero_grad()
    loss_of(net, rows, labels).backward()
    optimizer.step()


def one_by_one(use: Callable[[nn.Module, torch.optim.Optimizer, torch.Tensor, torch.Tensor], None]) -> Body:
    """A loop that draws its batches itself, and steps after each group of them."""

    def body(net: nn.Module, optimizer: torch.optim.Optimizer, _: DataLoader[Any]) -> None:
        for _ in range(60):
            for _ in range(GROUP):
                use(net, optimizer, torch.randn(8, 4), torch.randn(8, 2))
            optimizer.step()
            if use is add:
                optimizer.zero_grad()

    return body


def steps_by_itself(use: Callable[[nn.Module, torch.optim.Optimizer, torch.Tensor, torch.Tensor], None]) -> Body:
    def body(net: nn.Module, optimizer: torch.optim.Optimizer, _: DataLoader[Any]) -> None:
        for _ in range(60):
            use(net, optimizer, torch.randn(8, 4), torch.randn(8, 2))

    return body


def the_same_rows_again(net: nn.Module, optimizer: torch.optim.Optimizer, _: DataLoader[Any]) -> None:
    for _ in range(60):
        rows, labels = torch.randn(8, 4), torch.randn(8, 2)
        for _ in range(GROUP):
            clear_before(net, optimizer, rows, labels)
        optimizer.step()


def each_by_itself(net: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[Any]) -> None:
    for rows, labels in loader:
        attack_first(net, optimizer, rows, labels)


WITHOUT_LOADER = one_by_one(clear_before), one_by_one(clear_to_zeros)


@pytest.mark.parametrize(
    ("body", "cleared"),
    [
        pytest.param(in_groups(clear_before), GROUP - 1, id="cleared-before-each"),
        pytest.param(in_groups(clear_to_zeros), GROUP - 1, id="cleared-to-zeros"),
        pytest.param(in_groups(clear_before, clips=True), GROUP - 1, id="and-clipped"),
        pytest.param(WITHOUT_LOADER[0], GROUP - 1, id="without-a-loader"),
        pytest.param(WITHOUT_LOADER[1], GROUP - 1, id="without-a-loader-to-zeros"),
        pytest.param(one_by_one(add), 0, id="accumulated-without-a-loader"),
        pytest.param(one_by_one(sum_by_hand), 0, id="summed-by-hand-without-a-loader"),
        pytest.param(steps_by_itself(attack_first), 0, id="attacked-first-without-a-loader"),
        pytest.param(steps_by_itself(of_one_task_each), 0, id="the-gradients-of-parts-are-measured"),
        pytest.param(the_same_rows_again, 0, id="the-same-rows-again"),
        pytest.param(in_groups(add, clears_after=True), 0, id="accumulated"),
        pytest.param(in_groups(sum_by_hand), 0, id="summed-by-hand"),
        pytest.param(each_by_itself, 0, id="attacked-first"),
    ],
)
def test_batches_whose_gradients_are_cleared(capturing: Any, body: Body, cleared: int) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    loader = DataLoader(TensorDataset(torch.randn(320, 4), torch.randn(320, 2)), 8)
    trial, _ = recorded(capturing, lambda: body(net, optimizer, loader) or 0)
    found = numbers(trial, BATCHES_CLEARED)
    if found.tolist()[:1] == [cleared - 1.0] and cleared > 1 and body in WITHOUT_LOADER:
        found = found[1:]  # rows are read from the second pass on
    assert set(found.tolist()) == ({float(cleared)} if cleared else set())
    assert len(found) >= (5 if cleared else 0)
