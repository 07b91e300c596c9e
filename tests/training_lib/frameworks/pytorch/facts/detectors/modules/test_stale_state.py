"""State that only training mode updates, used in eval mode as it began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, spectral_norm

from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.observations import STALE_STATE
from trackside.records.model_facts import read_facts
from trackside.rules.program.stale_statistics import stale_modules

torch.set_num_threads(1)
Prepare = Callable[[nn.Module], object]


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def untracked() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, 3))


def bounded() -> nn.Module:
    return nn.Sequential(spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))


def parametrized() -> nn.Module:
    return nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))


def in_eval_mode(model: nn.Module) -> None:
    model.eval()


def in_training_mode(model: nn.Module) -> None:
    model.train()


def only_norms_in_eval_mode(model: nn.Module) -> None:
    model.train()
    model[1].eval()  # type: ignore[operator, index]  # it is a Sequential


def after_a_checkpoint(model: nn.Module) -> None:
    """Statistics as a checkpoint of a trained model has them, frozen."""
    model.train()
    model(torch.randn(32, 6) + 1)
    model.eval()


def frozen(model: nn.Module) -> None:
    model.eval()
    model[0].requires_grad_(False)  # type: ignore[operator, index]  # as above


def stale(capturing: Any, make: Callable[[], nn.Module], prepare: Prepare, *, each_step: Prepare | None = None) -> Any:
    torch.manual_seed(0)
    model = make()
    prepare(model)
    with capturing(losses=1) as store:
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
        for _ in range(35):
            if each_step is not None:
                each_step(model)
            optimizer.zero_grad()
            functional.cross_entropy(model(torch.randn(4, 6)), torch.tensor([0, 1, 2, 1])).backward()
            optimizer.step()
    facts = read_facts(store, "worker_0")[-1]
    assert isinstance(facts, ModelFacts)
    return [STALE_STATE.of(module) for module in stale_modules(facts)]


def trains_and_then_judges(model: nn.Module) -> None:
    """The adversary of a GAN: in training mode for its own step, in eval mode for the generator's."""
    model.train()
    with torch.no_grad():
        model(torch.randn(4, 6))
    model.eval()


STALE = [
    pytest.param(normalised, in_eval_mode, "running statistics", id="batch norm, the model in eval mode"),
    pytest.param(normalised, only_norms_in_eval_mode, "running statistics", id="batch norm alone in eval mode"),
    pytest.param(bounded, in_eval_mode, "spectral norm", id="spectral norm"),
    pytest.param(parametrized, in_eval_mode, "spectral norm", id="spectral norm as a parametrization"),
]
FRESH = [
    pytest.param(normalised, in_training_mode, None, id="batch norm in training mode"),
    pytest.param(normalised, after_a_checkpoint, None, id="batch norm of a checkpoint, frozen"),
    pytest.param(untracked, in_eval_mode, None, id="batch norm without running statistics"),
    pytest.param(bounded, in_training_mode, None, id="spectral norm in training mode"),
    pytest.param(parametrized, in_training_mode, None, id="spectral norm as a parametrization in training mode"),
    pytest.param(bounded, frozen, None, id="a frozen layer with spectral norm"),
    pytest.param(bounded, in_training_mode, trains_and_then_judges, id="an adversary that takes turns"),
]


@pytest.mark.parametrize(("make", "prepare", "state"), STALE)
def test_stale_state_is_found(capturing: Any, make: Callable[[], nn.Module], prepare: Prepare, state: str) -> None:
    assert stale(capturing, make, prepare) == [state]


@pytest.mark.parametrize(("make", "prepare", "each_step"), FRESH)
def test_state_that_moves_or_is_learned_is_silent(
    capturing: Any, make: Callable[[], nn.Module], prepare: Prepare, each_step: Prepare | None
) -> None:
    assert stale(capturing, make, prepare, each_step=each_step) == []
