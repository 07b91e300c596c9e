"""Backward passes and steps: how many of the one came before the other, and steps that found no gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.training_lib.frameworks.pytorch.statistics.test_cleared_gradients import (
    CLEARED,
    KEPT,
    STEPS,
    loss,
    master_copies,
    model,
)
from trackside.contracts.run.recorded_names import BACKWARD_PASSES, PASSES_WITHOUT_STEP, WITHOUT_GRADIENTS
from trackside.frameworks.pytorch.statistics.step_order import FEWEST_WITHOUT_STEP
from trackside.rules.program.passes_without_step import PassesWithoutStep
from trackside.rules.program.steps_without_gradients import StepsWithoutGradients
from trackside.trial.trial import Trial

torch.set_num_threads(1)
MANY = 40


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def captured(capturing: Any, body: Callable[[], None]) -> Trial:
    with capturing(losses=100) as store:
        body()
    trial = Trial(store, store)
    trial.refresh()
    return trial


def recorded(trial: Trial, name: str) -> dict[int, float]:
    columns = trial.columns(name, "mean", last_step=1000, mode="TRAIN")
    return dict(zip(columns[0].steps.tolist(), columns[0].values.tolist(), strict=True)) if columns else {}


def newest_findings(rule: Any, trial: Trial) -> list[str]:
    step = max([*recorded(trial, "MSELoss_output_0"), *recorded(trial, BACKWARD_PASSES)])
    return [finding.subject for finding in rule.check(trial.window(step, now=0.0, newest_step_at=0.0))]


@pytest.mark.parametrize("body", [*CLEARED, *KEPT, pytest.param(master_copies, id="master copies")])
def test_a_program_with_a_pass_before_each_step_has_no_zero(capturing: Any, body: Callable[[], None]) -> None:
    trial = captured(capturing, body)
    passes = recorded(trial, BACKWARD_PASSES)
    assert passes.keys() == set(range(1, STEPS))
    assert min(passes.values()) >= 1
    assert recorded(trial, WITHOUT_GRADIENTS) == recorded(trial, PASSES_WITHOUT_STEP) == {}


def looped(body: Callable[[int, nn.Module, torch.optim.Optimizer], None]) -> Callable[[], None]:
    def run() -> None:
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        for number in range(MANY):
            body(number, net, optimizer)

    return run


def steps_twice(_: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss(net).backward()
    optimizer.step()
    optimizer.step()


def computes_every_fourth(number: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if number % 4 == 0:
        optimizer.zero_grad()
        loss(net).backward()
    optimizer.step()


def clears_before_the_step(_: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loss(net).backward()
    optimizer.zero_grad()
    optimizer.step()


def steps_before_the_pass(_: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    optimizer.step()
    loss(net).backward()


def clears_the_model_before_the_step(_: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loss(net).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    net.zero_grad()
    optimizer.step()


def usual(_: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss(net).backward()
    optimizer.step()


def steps_with_the_gradients_of_the_iteration_before(_: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()
    optimizer.zero_grad()
    loss(net).backward()


def accumulates_four(number: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    (loss(net) / 4).backward()
    if number % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()


def recomputes(_: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    values = torch.randn(8, 4, requires_grad=True)
    checkpoint(net, values, use_reentrant=True).sum().backward()
    loss(net).backward()
    optimizer.step()


def perturbs_its_inputs(_: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Each step has a pass for adversarial inputs before that of training."""
    loss(net).backward()
    optimizer.zero_grad()
    loss(net).backward()
    optimizer.step()


def clips_and_computes_every_fourth(number: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if number % 4 == 0:
        optimizer.zero_grad()
        loss(net).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()


def _asks(net: nn.Module) -> None:
    held = list(net.parameters())
    for parameter, gradient in zip(held, torch.autograd.grad(loss(net), held), strict=True):
        parameter.grad = gradient


def asks_for_every_fourth(number: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if number == 0:
        loss(net).backward()
    elif number % 4 == 0:
        _asks(net)
    optimizer.step()


def asks_after_a_first_pass(number: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if number < 5:
        optimizer.zero_grad()
        loss(net).backward()
    else:
        _asks(net)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()


def asks_in_a_closure(number: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        _asks(net)
        return loss(net)

    if number == 0:
        loss(net).backward()
    optimizer.step(closure)


def writes_into_gradients(number: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Gradients of an evolution strategy, in a program with a pass now and then."""
    if number % 5 == 0:
        loss(net).backward()
    for parameter in net.parameters():
        assert parameter.grad is not None
        parameter.grad.copy_(torch.randn_like(parameter))
    optimizer.step()


def evolves(_: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Evolution strategies make gradients by hand."""
    for parameter in net.parameters():
        parameter.grad = torch.randn_like(parameter)
    loss(net).detach()
    optimizer.step()


FIRING = [
    pytest.param(looped(steps_twice), BACKWARD_PASSES, id="two steps for each pass"),
    pytest.param(looped(computes_every_fourth), BACKWARD_PASSES, id="a pass for every fourth step"),
    pytest.param(looped(clips_and_computes_every_fourth), BACKWARD_PASSES, id="the same, clipped again at each step"),
    pytest.param(looped(asks_for_every_fourth), BACKWARD_PASSES, id="gradients asked for at every fourth step"),
    pytest.param(looped(clears_before_the_step), WITHOUT_GRADIENTS, id="cleared between pass and step"),
    pytest.param(looped(clears_the_model_before_the_step), WITHOUT_GRADIENTS, id="cleared by the model"),
    pytest.param(looped(steps_before_the_pass), WITHOUT_GRADIENTS, id="step before the pass"),
]
SILENT = [
    pytest.param(looped(usual), id="the usual order"),
    pytest.param(looped(steps_with_the_gradients_of_the_iteration_before), id="gradients of the iteration before"),
    pytest.param(looped(accumulates_four), id="accumulation"),
    pytest.param(looped(recomputes), id="passes inside of a pass"),
    pytest.param(looped(perturbs_its_inputs), id="adversarial inputs"),
    pytest.param(looped(asks_after_a_first_pass), id="gradients asked for, after a pass"),
    pytest.param(looped(asks_in_a_closure), id="gradients asked for in a closure"),
    pytest.param(looped(writes_into_gradients), id="gradients written by hand, beside passes"),
]


@pytest.mark.parametrize(("body", "subject"), FIRING)
def test_steps_without_new_gradients_are_found(capturing: Any, body: Callable[[], None], subject: str) -> None:
    assert newest_findings(StepsWithoutGradients(steps=20), captured(capturing, body)) == [subject]


@pytest.mark.parametrize("body", SILENT)
def test_other_orders_are_silent(capturing: Any, body: Callable[[], None]) -> None:
    trial = captured(capturing, body)
    assert newest_findings(StepsWithoutGradients(steps=5), trial) == []
    assert newest_findings(PassesWithoutStep(), trial) == []


def test_passes_within_a_pass_do_not_count(capturing: Any) -> None:
    assert set(recorded(captured(capturing, looped(recomputes)), BACKWARD_PASSES).values()) == {2.0}


def test_gradients_by_hand_tell_nothing(capturing: Any) -> None:
    assert recorded(captured(capturing, looped(evolves)), BACKWARD_PASSES) == {}


def trains_then(further: Callable[[nn.Module, torch.optim.Optimizer], None]) -> Callable[[], None]:
    def run() -> None:
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        for number in range(10 + 2 * FEWEST_WITHOUT_STEP):
            optimizer.zero_grad()
            loss(net).backward()
            if number < 10:
                optimizer.step()
        further(net, optimizer)

    return run


def never(*_: object) -> None:
    """Do nothing more."""


def again(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    usual(0, net, optimizer)


def attacks() -> None:
    """Adversarial examples are made of the trained model."""
    looped(usual)()
    net, inputs = model(), torch.randn(8, 4, requires_grad=True)
    for _ in range(4 * FEWEST_WITHOUT_STEP):
        net(inputs).sum().backward()


def test_passes_that_no_step_follows_are_found_at_the_newest_step(capturing: Any) -> None:
    trial = captured(capturing, trains_then(never))
    assert recorded(trial, PASSES_WITHOUT_STEP) == {9: 2.0 * FEWEST_WITHOUT_STEP}
    assert newest_findings(PassesWithoutStep(), trial) == ["steps"]


def test_steps_that_come_again_are_no_issue_any_more(capturing: Any) -> None:
    assert newest_findings(PassesWithoutStep(), captured(capturing, trains_then(again))) == []


def test_passes_from_another_line_are_no_training(capturing: Any) -> None:
    assert recorded(captured(capturing, attacks), PASSES_WITHOUT_STEP) == {}
