"""All probes together: silent on models that are right, and without a trace in the training."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from tests.training_lib.rehearsal.models import RIGHT, Case
from tests.training_lib.rehearsal.rehearsing import recording, rehearse, table
from trackside.contracts.run.check import Outcome
from trackside.rehearsal.registry import all_probes
from trackside.rehearsal.rehearsal import answer_all
from trackside.rehearsal.subject import Subject, named_state


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in RIGHT.items()])
def test_right_models_have_no_fault(case: Case) -> None:
    torch.manual_seed(3)
    subject = rehearse(case.build(), loss=case.loss, batches=case.batches)
    answers = answer_all(subject, all_probes())
    assert {each.probe: each.observed for each in answers if each.outcome is Outcome.FAULT} == {}
    tried = [each for each in answers if each.outcome is Outcome.OK]
    assert len(tried) >= 5, [(each.probe, each.observed) for each in answers]


def everything(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """All that a training depends on."""
    gradients = [torch.zeros(0) if p.grad is None else p.grad for p in model.parameters()]
    states = [v for state in optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)]
    modes = torch.tensor([module.training for module in model.modules()])
    numpy_state = torch.tensor(np.random.get_state()[1].astype(np.int64))  # type: ignore[index, union-attr]
    python_state = torch.tensor(random.getstate()[1], dtype=torch.int64)
    tensors = [*model.parameters(), *named_state([model]).values(), *gradients, *states, modes]
    return [each.detach().clone() for each in (*tensors, numpy_state, python_state, torch.get_rng_state())]


@pytest.mark.parametrize(
    "name", ["dropout", "batch-norm", "running-mean", "attention", "variational", "mixed-precision", "experts"]
)
def test_the_training_goes_on_as_if_nobody_had_asked(name: str) -> None:
    def train(*, is_asked: bool) -> list[torch.Tensor]:
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)
        case = RIGHT[name]
        model = case.build()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        found: list[torch.Tensor] = []
        with recording() as recorder:
            for step, (values, labels) in enumerate(case.batches or table()):
                loss = case.loss(model, values, labels)
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
                recorder.stepped(optimizer)
                if step == 2 and is_asked:
                    recorder.remove()
                    before = everything(model, optimizer)
                    subject = Subject(recorder.programs, first_values={}, time_left=lambda: 60.0)
                    answers = answer_all(subject, all_probes())
                    assert sum(each.outcome is Outcome.OK for each in answers) >= 5
                    assert all(torch.equal(*pair) for pair in zip(before, everything(model, optimizer), strict=True))
                found.append(loss.detach())
        return [*found, *everything(model, optimizer)]

    asked, unasked = train(is_asked=True), train(is_asked=False)
    assert all(torch.equal(*pair) for pair in zip(asked, unasked, strict=True))


def test_a_probe_that_a_model_does_not_bear_costs_its_own_answer_only() -> None:
    class Fussy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            if not self.training:
                raise ValueError("no evaluation here")
            return self.layer(values)  # type: ignore[no-any-return]

    answers = {each.probe: each for each in answer_all(rehearse(Fussy()), all_probes())}
    refused = answers["evaluation-repeats"]
    assert (refused.outcome, "no evaluation here" in refused.observed) == (Outcome.NOT_TRIED, True)
    assert answers["gradients-reach-parameters"].outcome is Outcome.OK


def test_no_time_is_no_answer() -> None:
    subject = rehearse(nn.Linear(6, 3))
    subject.time_left = lambda: 0.0
    assert {each.outcome for each in answer_all(subject, all_probes())} == {Outcome.NOT_TRIED}


def test_names_are_unique_and_each_probe_has_a_cure() -> None:
    probes = all_probes()
    assert len({probe.name for probe in probes}) == len(probes) >= 10
    assert all(probe.what.endswith(".") and probe.cures for probe in probes)
