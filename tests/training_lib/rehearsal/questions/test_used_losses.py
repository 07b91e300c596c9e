"""losses-reach-the-step: two backward passes of one step, with a clearing between them or without."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.optimizer import Optimizer

from tests.training_lib.rehearsal.models import perceptron
from tests.training_lib.rehearsal.rehearsing import answer, recording, table
from trackside.contracts.run.check import Outcome
from trackside.rehearsal.registry import all_probes
from trackside.rehearsal.subject import Subject

PROBE = next(probe for probe in all_probes() if probe.name == "losses-reach-the-step")
Passes = Callable[[nn.Module, Optimizer, torch.Tensor, torch.Tensor], object]


def first(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(values), labels)


def second(model: nn.Module, values: torch.Tensor) -> torch.Tensor:
    return (model(values + 0.1) - 0.5).square().mean()


def one_pass(model: nn.Module, optimizer: Optimizer, values: torch.Tensor, labels: torch.Tensor) -> None:
    first(model, values, labels).backward()  # type: ignore[no-untyped-call] # torch's own omission


def both(model: nn.Module, optimizer: Optimizer, values: torch.Tensor, labels: torch.Tensor) -> None:
    one_pass(model, optimizer, values, labels)
    second(model, values).backward()  # type: ignore[no-untyped-call]


def cleared(model: nn.Module, optimizer: Optimizer, values: torch.Tensor, labels: torch.Tensor) -> None:
    one_pass(model, optimizer, values, labels)
    optimizer.zero_grad()
    second(model, values).backward()  # type: ignore[no-untyped-call]


def clipped_after_clearing(model: nn.Module, optimizer: Optimizer, values: torch.Tensor, labels: torch.Tensor) -> None:
    cleared(model, optimizer, values, labels)
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)


def sharpness_aware(model: nn.Module, optimizer: Optimizer, values: torch.Tensor, labels: torch.Tensor) -> None:
    one_pass(model, optimizer, values, labels)
    moves = [0.05 * parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    with torch.no_grad():
        torch._foreach_add_(list(model.parameters()), moves)
    optimizer.zero_grad()
    one_pass(model, optimizer, values, labels)
    with torch.no_grad():
        torch._foreach_sub_(list(model.parameters()), moves)


def adversarial(model: nn.Module, optimizer: Optimizer, values: torch.Tensor, labels: torch.Tensor) -> None:
    inputs = values.clone().requires_grad_()
    one_pass(model, optimizer, inputs, labels)
    optimizer.zero_grad()
    assert inputs.grad is not None
    one_pass(model, optimizer, values + 0.1 * inputs.grad.sign(), labels)


def looked_at(model: nn.Module, optimizer: Optimizer, values: torch.Tensor, labels: torch.Tensor) -> None:
    loss = first(model, values, labels)
    loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    optimizer.zero_grad()
    (loss + second(model, values)).backward()


@pytest.mark.parametrize(
    ("passes", "outcome"),
    [
        pytest.param(both, Outcome.OK, id="both-count"),
        pytest.param(cleared, Outcome.FAULT, id="cleared-between"),
        pytest.param(clipped_after_clearing, Outcome.FAULT, id="cleared-and-clipped"),
        pytest.param(one_pass, Outcome.DOES_NOT_APPLY, id="one"),
        pytest.param(sharpness_aware, Outcome.DOES_NOT_APPLY, id="weights-move-between"),
        pytest.param(adversarial, Outcome.DOES_NOT_APPLY, id="gradients-of-inputs"),
        pytest.param(looked_at, Outcome.DOES_NOT_APPLY, id="a-part-of-the-loss-first"),
    ],
)
def test_losses_reach_the_step(passes: Passes, outcome: Outcome) -> None:
    torch.manual_seed(0)
    model = perceptron(nn.ReLU())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with recording() as recorder:
        for values, labels in table():
            optimizer.zero_grad()
            passes(model, optimizer, values, labels)
            optimizer.step()
            recorder.stepped(optimizer)
    subject = Subject(recorder.programs, first_values={}, time_left=lambda: 60.0, changes=recorder.gradients.changes)
    found = answer(subject, PROBE)
    assert found.outcome is outcome, found
