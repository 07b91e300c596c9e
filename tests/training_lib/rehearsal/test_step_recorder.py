"""A recorded step replays to the loss that the script had, whatever the script's form."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import _get_current_function_mode_stack

from tests.training_lib.rehearsal.models import RIGHT, perceptron
from tests.training_lib.rehearsal.rehearsing import (
    CLASSES,
    ROWS,
    WIDTH,
    RaisingGuard,
    recording,
    rehearse,
    table,
)
from trackside.contracts.run.check import Outcome
from trackside.rehearsal.registry import all_probes
from trackside.rehearsal.rehearsal import answer_all
from trackside.rehearsal.step_recorder import StepRecorder
from trackside.rehearsal.subject import Subject

Train = Callable[[StepRecorder], None]


def model_and_optimizer(*middle: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = perceptron(*middle)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def step(recorder: StepRecorder, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call] # torch's own omission
    optimizer.step()
    recorder.stepped(optimizer)


def criterion_module(recorder: StepRecorder) -> None:
    model, optimizer = model_and_optimizer(nn.Dropout(0.5))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for values, labels in table():
        step(recorder, optimizer, criterion(model(values), labels))


def by_hand(recorder: StepRecorder) -> None:
    model, optimizer = model_and_optimizer()
    for values, labels in table():
        scores = model(values)
        shares = scores.exp() / scores.exp().sum(1, keepdim=True)
        step(recorder, optimizer, -shares[range(ROWS), labels].log().mean())


class Scores(torch.Tensor):
    """A class of its own, as fastai puts tensors into."""


def in_another_class(recorder: StepRecorder) -> None:
    model, optimizer = model_and_optimizer()
    for values, labels in table():
        scores = model(values).transpose(0, 1).transpose(0, 1).contiguous()
        step(recorder, optimizer, functional.cross_entropy(scores.as_subclass(Scores), labels))


def in_place(recorder: StepRecorder) -> None:
    model, optimizer = model_and_optimizer()
    for values, labels in table():
        scores = model(values) * 1
        scores[:, 0] = scores[:, 1] * 2
        scores += 1
        scores[:, 2].mul_(3)
        loss = functional.cross_entropy(scores, labels)
        loss += 1e-3 * sum(p.square().sum() for p in model.parameters())
        step(recorder, optimizer, loss)


def parts_and_penalty(recorder: StepRecorder) -> None:
    one, two = nn.Linear(WIDTH, 4), nn.Linear(4, CLASSES)
    optimizer = torch.optim.Adam([*one.parameters(), *two.parameters()])
    for values, labels in table():
        hidden = torch.relu(one(values))
        loss = functional.cross_entropy(two(hidden), labels) + 0.1 * hidden.abs().mean() + two.weight.norm()
        step(recorder, optimizer, loss)


def accumulated(recorder: StepRecorder) -> None:
    model, optimizer = model_and_optimizer(nn.BatchNorm1d(16))
    for number, (values, labels) in enumerate(table(8)):
        torch.autograd.backward(functional.cross_entropy(model(values), labels) / 2)
        if number % 2:
            optimizer.step()
            recorder.stepped(optimizer)
            optimizer.zero_grad()


def adversarial(recorder: StepRecorder) -> None:
    maker, judge = nn.Linear(2, WIDTH), nn.Linear(WIDTH, 1)
    of_maker, of_judge = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
    for values, _ in table():
        made = maker(torch.randn(ROWS, 2))
        step(
            recorder,
            of_judge,
            functional.softplus(judge(made.detach())).mean() + functional.softplus(-judge(values)).mean(),
        )
        step(recorder, of_maker, functional.softplus(-judge(made)).mean())


def with_closure(recorder: StepRecorder) -> None:
    model = perceptron(nn.Tanh())
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    for values, labels in table():

        def closure(values: torch.Tensor = values, labels: torch.Tensor = labels) -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(values), labels)
            torch.autograd.backward(loss)
            return loss

        optimizer.step(closure)
        recorder.stepped(optimizer)


def with_evaluations(recorder: StepRecorder) -> None:
    model, optimizer = model_and_optimizer(nn.Dropout(0.5))
    for values, labels in table():
        model.eval()
        with torch.no_grad():
            functional.cross_entropy(model(values), labels).item()
        model.train()
        loss = functional.cross_entropy(model(values), labels)
        (model(values).argmax(1) == labels).float().mean().item()
        step(recorder, optimizer, loss)


def on_a_chosen_device(recorder: StepRecorder) -> None:
    model, optimizer = model_and_optimizer()
    for values, labels in table():
        with torch.device("cpu"):
            scores = model(values)
        step(recorder, optimizer, functional.cross_entropy(scores + torch.zeros(1), labels))


def autograd_backward(recorder: StepRecorder) -> None:
    model, optimizer = model_and_optimizer()
    for values, labels in table():
        loss = functional.cross_entropy(model(values), labels)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        recorder.stepped(optimizer)


def on_a_default_device(recorder: StepRecorder) -> None:
    torch.set_default_device("cpu")
    try:
        on_a_chosen_device(recorder)
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize(
    ("train", "losses"),
    [
        pytest.param(criterion_module, [1], id="criterion-module"),
        pytest.param(autograd_backward, [1], id="autograd-backward"),
        pytest.param(by_hand, [1], id="by-hand"),
        pytest.param(in_place, [1], id="in-place"),
        pytest.param(in_another_class, [1], id="in-another-class"),
        pytest.param(parts_and_penalty, [1], id="parts-and-penalty"),
        pytest.param(accumulated, [2], id="accumulated"),
        pytest.param(adversarial, [1, 1], id="adversarial"),
        pytest.param(with_closure, [2], id="closure"),
        pytest.param(with_evaluations, [1], id="evaluations-between"),
        pytest.param(on_a_chosen_device, [1], id="device-context"),
        pytest.param(on_a_default_device, [1], id="default-device"),
    ],
)
def test_replays_the_loss(train: Train, losses: list[int]) -> None:
    torch.manual_seed(0)
    with recording() as recorder:
        train(recorder)
    assert _get_current_function_mode_stack() == []
    subject = Subject(recorder.programs, first_values={}, time_left=lambda: 60.0)
    assert [len(found) for _, found in recorder.programs] == losses
    for _, programs in recorder.programs:
        for program in programs:
            assert program.lacks == ""
            program.set_recorded_modes()
            assert math.isclose(float(program.replay(as_recorded=True).loss.detach()), program.value, rel_tol=1e-6)
    assert subject.is_rebuilt()


@pytest.mark.parametrize("name", RIGHT)
def test_replays_each_kind_of_model(name: str) -> None:
    torch.manual_seed(0)
    case = RIGHT[name]
    assert rehearse(case.build(), loss=case.loss, batches=case.batches).is_rebuilt()


def test_a_loss_of_no_module_cannot_be_replayed() -> None:
    weight = nn.Parameter(torch.ones(WIDTH, CLASSES))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with recording() as recorder:
        for values, labels in table():
            step(recorder, optimizer, functional.cross_entropy(values @ weight, labels))
    assert "calls of the model" in Subject(recorder.programs, first_values={}, time_left=lambda: 60.0).lacks


class Keeps(nn.Module):
    """A classifier with a tensor that its loss takes, kept in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.layer, self.way, self.extra = nn.Linear(WIDTH, CLASSES), way, list[torch.Tensor]()
        self.elsewhere: set[torch.Tensor] = set()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layer(values)
        kept = scores.square().mean()
        self.elsewhere = {kept} if self.way == "where nobody looks" else set()
        if self.way == "a list that grows":
            self.extra.append(kept)
        elif self.way == "a new list":
            self.extra = [kept]
        return scores

    def kept(self) -> torch.Tensor:
        return next(iter(self.elsewhere)) if self.elsewhere else self.extra[-1]


def keeping(way: str) -> tuple[Subject, Keeps]:
    torch.manual_seed(0)
    model = Keeps(way)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording() as recorder:
        for values, labels in table():
            step(recorder, optimizer, functional.cross_entropy(model(values), labels) + 2 * model.kept())
    return Subject(recorder.programs, first_values={}, time_left=lambda: 60.0), model


def test_a_kept_tensor_is_computed_anew_in_a_replay() -> None:
    subject, model = keeping("a new list")
    assert (subject.lacks, subject.is_rebuilt()) == ("", True)
    with torch.no_grad():
        model.layer.weight.mul_(3)
    loss = subject.trained(subject.program).loss
    (values,) = subject.program.inputs()
    expected = functional.cross_entropy(model(values), table()[-1][1]) + 2 * model.kept()
    assert math.isclose(float(loss.detach()), float(expected.detach()), rel_tol=1e-6)
    (gradient,) = torch.autograd.grad(loss, model.layer.weight)
    assert torch.allclose(gradient, torch.autograd.grad(expected, model.layer.weight)[0])


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        pytest.param("where nobody looks", "no module keeps in an attribute", id="elsewhere"),
        pytest.param("a list that grows", "leaves Keeps.extra as it is", id="never-replaced"),
    ],
)
def test_a_tensor_that_no_replay_computes_anew_is_never_taken_for_new(way: str, reason: str) -> None:
    subject, _ = keeping(way)
    answers = answer_all(subject, all_probes())
    assert {(each.outcome, reason in each.observed) for each in answers} == {(Outcome.NOT_TRIED, True)}


def test_nothing_is_recorded_of_a_training_that_another_framework_has() -> None:
    recorder = StepRecorder(RaisingGuard(), is_others=lambda: True)
    recorder.install()
    model, _ = model_and_optimizer()
    torch.autograd.backward(functional.cross_entropy(model(table()[0][0]), table()[0][1]))
    assert recorder.size == 0
    assert _get_current_function_mode_stack() == []


def test_training_is_unchanged_by_the_recorder() -> None:
    def train(*, is_recorded: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = perceptron(nn.Dropout(0.5), nn.BatchNorm1d(16))
        optimizer = torch.optim.Adam(model.parameters())
        recorder = StepRecorder(RaisingGuard())
        if is_recorded:
            recorder.install()
        for values, labels in table():
            loss = functional.cross_entropy(model(values), labels)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            if is_recorded:
                recorder.stepped(optimizer)
        recorder.remove()
        return [*model.parameters(), *model.buffers(), torch.get_rng_state()]

    assert all(torch.equal(a, b) for a, b in zip(train(is_recorded=True), train(is_recorded=False), strict=True))


def test_the_trace_does_not_grow_with_the_steps() -> None:
    model, optimizer = model_and_optimizer()
    sizes = []
    with recording() as recorder:
        for values, labels in table(12):
            step(recorder, optimizer, functional.cross_entropy(model(values), labels))
            sizes.append(recorder.size)
    assert sizes[2:] == sizes[2:3] * 10
