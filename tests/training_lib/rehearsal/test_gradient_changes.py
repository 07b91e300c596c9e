"""Changes of gradients between the backward pass and the step: seen, repeated, and without effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad

from tests.training_lib.rehearsal.models import perceptron
from tests.training_lib.rehearsal.rehearsing import (
    CLASSES,
    WIDTH,
    Loss,
    answer,
    classify,
    recording,
    rehearse,
    table,
)
from trackside.contracts.run.check import Outcome
from trackside.rehearsal.registry import all_probes
from trackside.rehearsal.subject import Subject

PROBES = {probe.name: probe for probe in all_probes()}
FAULT, OK, DOES_NOT_APPLY = Outcome.FAULT, Outcome.OK, Outcome.DOES_NOT_APPLY
Change = Callable[[nn.Module], object]


def trained(
    *,
    before: Change = lambda _: None,
    after: Change = lambda _: None,
    rate: float = 0.1,
    loss: Loss = classify,
    build: Callable[[], nn.Module] = lambda: perceptron(nn.ReLU()),
) -> Subject:
    """Make some steps, with a change of gradients before the backward pass and one after it."""
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with recording() as recorder:
        for values, labels in table():
            before(model)
            optimizer.zero_grad()
            loss(model, values, labels).backward()  # type: ignore[no-untyped-call] # torch's own omission
            after(model)
            optimizer.step()
            recorder.stepped(optimizer)
    changes = recorder.gradients.changes
    return Subject(recorder.programs, first_values={}, time_left=lambda: 60.0, changes=changes)


def by_norm(limit: float) -> Change:
    return lambda model: nn.utils.clip_grad_norm_(model.parameters(), limit)


def by_value(limit: float) -> Change:
    return lambda model: nn.utils.clip_grad_value_(list(model.parameters()), limit)


def spent(model: nn.Module) -> None:
    parameters = iter(list(model.parameters()))
    list(parameters)
    nn.utils.clip_grad_norm_(parameters, 1.0)


def of_another(_: nn.Module) -> None:
    other = nn.Linear(2, 2)
    other(torch.ones(1, 2)).sum().backward()
    nn.utils.clip_grad_norm_(other.parameters(), 1.0)


def by_hand(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.sign_()


def scaled(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(128.0)


@pytest.mark.parametrize(
    ("before", "after", "outcome", "words"),
    [
        pytest.param(None, by_norm(1.0), OK, "reaches gradients", id="norm"),
        pytest.param(None, by_norm(1e6), OK, "reaches gradients", id="norm-that-is-never-reached"),
        pytest.param(None, by_value(0.1), OK, "reaches gradients", id="value"),
        pytest.param(None, None, DOES_NOT_APPLY, "no function", id="none"),
        pytest.param(None, by_hand, DOES_NOT_APPLY, "no function", id="by-hand"),
        pytest.param(None, spent, FAULT, "of type list_iterator, was used up", id="spent-iterator"),
        pytest.param(None, of_another, FAULT, "does not hold", id="another-model"),
        pytest.param(by_norm(1.0), None, FAULT, "before the backward pass", id="too-early"),
        pytest.param(None, by_value(1e-10), FAULT, "cuts 100% of all elements, to 1e-10", id="to-nothing"),
    ],
)
def test_clipping_takes_effect(before: Change | None, after: Change | None, outcome: Outcome, words: str) -> None:
    subject = trained(before=before or (lambda _: None), after=after or (lambda _: None))
    found = answer(subject, PROBES["clipping-takes-effect"])
    assert (found.outcome, words in found.observed) == (outcome, True), found
    assert bool(found.where) is (outcome is FAULT)


@pytest.mark.parametrize(
    ("change", "scale"),
    [
        pytest.param(lambda _: None, 1.0, id="none"),
        pytest.param(by_norm(0.01), 1.0, id="norm"),
        pytest.param(by_value(0.001), 1.0, id="value"),
        pytest.param(scaled, 1 / 128, id="scaled"),
        pytest.param(lambda model: (scaled(model), by_norm(1e-4)(model)), 1 / 128, id="scaled-and-clipped"),
        pytest.param(spent, 1.0, id="spent"),
        pytest.param(by_hand, None, id="by-hand"),
        pytest.param(lambda model: (by_norm(0.01)(model), by_hand(model)), None, id="clipped-and-by-hand"),
    ],
)
def test_a_replay_gives_the_gradients_of_the_step(change: Change, scale: float | None) -> None:
    subject = trained(after=change)
    (optimizer, (program,)) = subject.steps[0]
    found = subject.gradient_scale(program, optimizer)
    assert found == (scale if scale is None else pytest.approx(scale, rel=1e-3))


def steep(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (model(values)[:, 0] - labels).square().mean()


@pytest.mark.parametrize(
    ("change", "rate", "outcome", "words"),
    [
        pytest.param(lambda _: None, 0.7, FAULT, "raises the loss", id="not-clipped"),
        pytest.param(by_norm(0.1), 0.7, OK, "SGD (rate 0.7)", id="clipped"),
        pytest.param(spent, 1e-3, OK, "SGD (rate 0.001)", id="clipped-without-effect"),
        pytest.param(by_hand, 1e-3, OK, "own optimizer was not tried", id="changed-by-hand"),
    ],
)
def test_a_batch_is_learned_with_the_clipping_of_the_script(
    change: Change, rate: float, outcome: Outcome, words: str
) -> None:
    subject = trained(after=change, rate=rate, loss=steep, build=lambda: nn.Linear(WIDTH, CLASSES))
    found = answer(subject, PROBES["one-batch-is-learnable"])
    assert (found.outcome, words in f"{found.what} {found.observed}") == (outcome, True), found


def dead_layer() -> nn.Module:
    model = perceptron(nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
    nn.init.constant_(model[2].bias, -50.0)
    return model


class Experts(nn.Module):
    """Two experts, of which one is never chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList([perceptron(nn.ReLU()), perceptron(nn.ReLU())])

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        first, second = (expert(values) for expert in self.experts)
        return first + 0 * second


@pytest.mark.parametrize(
    ("build", "where"),
    [
        pytest.param(lambda: perceptron(nn.ReLU(), nn.Linear(16, 16), nn.ReLU()), "", id="alive"),
        pytest.param(dead_layer, "Sequential.2.weight", id="dead"),
        pytest.param(Experts, "", id="an-expert-that-is-never-chosen"),
    ],
)
def test_layers_without_a_living_unit(build: Callable[[], nn.Module], where: str) -> None:
    found = answer(rehearse(build()), PROBES["gradients-reach-parameters"])
    assert (found.outcome, found.where) == (FAULT if where else OK, where), found


def test_pytorch_is_left_as_it_was() -> None:
    names = ("clip_grad_norm_", "clip_grad_value_")
    before = [getattr(place, name) for place in (nn.utils, clip_grad) for name in names]
    trained(after=by_norm(1.0))
    assert [getattr(place, name) for place in (nn.utils, clip_grad) for name in names] == before
