"""Optimizers that are none of `torch.optim`, known by what they have (issue 41)."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn

STEPS = 4
LOST = 2  # steps by hand before the first one that is known to be one


class Descent:
    """Has `step` and groups, as fastai's optimizers have them: a property, made anew at each look."""

    def __init__(self, parameters: Any, rate: float) -> None:
        self.lists, self.rates = [list(parameters)], [rate]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [{"params": each, "lr": rate} for each, rate in zip(self.lists, self.rates, strict=True)]

    def step(self, closure: None = None) -> str:
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.data.add_(parameter.grad, alpha=-group["lr"])
        return "result"


class Loud(Descent):
    """Calls the step of the class above."""

    def step(self, closure: None = None) -> str:
        return super().step(closure)


class Schedule:
    """Has `step`, and no groups."""

    def step(self) -> None:
        return


class Odd:
    """Has groups of something else."""

    param_groups = ({"params": ["a", "b"]}, {"names": ()}, 3)

    def step(self) -> None:
        return


class Raising:
    """Cannot be looked at."""

    @property
    def param_groups(self) -> list[Any]:
        raise RuntimeError("not now")

    def step(self) -> None:
        return


def train(optimizer: Any, model: nn.Module) -> None:
    for _ in range(STEPS):
        model.zero_grad()
        torch.nn.functional.mse_loss(model(torch.ones(3, 2)), torch.zeros(3, 1)).backward()
        assert optimizer.step() in {None, "result"}


def train_by_hand(model: nn.Module, *, passes: int = 1, under_no_grad: bool = False, clears: bool = True) -> None:
    """Train by updates of the script's own; see `LOST` for the number of steps."""
    inputs = torch.arange(6.0).reshape(3, 2)
    for _ in range(STEPS + LOST):
        for _ in range(passes):
            torch.nn.functional.mse_loss(model(inputs), torch.ones(3, 1)).backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            if under_no_grad:
                with torch.no_grad():
                    parameter.sub_(0.01 * parameter.grad)
            else:
                parameter.data -= 0.01 * parameter.grad
            if clears:
                parameter.grad = None


def weights_after(kind: type) -> tuple[torch.Tensor, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 1))
    optimizer = kind(model.parameters(), 0.1)
    train(optimizer, model)
    return model[0].weight.detach().clone(), weakref.ref(optimizer)


@pytest.mark.parametrize("kind", [pytest.param(Descent, id="plain"), pytest.param(Loud, id="step of the class above")])
def test_its_steps_are_captured(kind: type, capturing: Any, read_run: Any) -> None:
    bare, _ = weights_after(kind)
    own = vars(kind)["step"]
    with capturing(losses=1, weights=1, gradients=1, hyperparameters=1) as store:
        weights, optimizer = weights_after(kind)
    run = read_run(store)
    rate = f"hyperparameters/{kind.__name__}/group_0/lr"
    assert set(run) == set(range(STEPS))
    assert all(
        {"MSELoss_output_0", "Sequential_0.weight", "gradient/Sequential_0.weight", rate} <= set(s)
        for s in run.values()
    )
    assert [float(step[rate]) for step in run.values()] == [0.1] * STEPS
    first, second = run[0], run[1]
    assert second["Sequential_0.weight"] == pytest.approx(
        first["Sequential_0.weight"] - 0.1 * first["gradient/Sequential_0.weight"]
    )
    assert torch.equal(weights, bare)
    assert vars(kind)["step"] is own
    gc.collect()
    assert optimizer() is None


@pytest.mark.parametrize("kind", [Schedule, Odd, Raising])
def test_others_are_left_alone(kind: type, capturing: Any, read_run: Any) -> None:
    own = vars(kind)["step"]
    other = kind()
    with capturing(losses=1) as store:
        train(other, nn.Linear(2, 1))
        assert vars(kind)["step"] is own
    assert not read_run(store)


def test_beside_an_optimizer_of_pytorch_nothing_is_looked_for(capturing: Any, read_run: Any) -> None:
    own = vars(Descent)["step"]
    model, other = nn.Linear(2, 1), nn.Linear(2, 1)
    beside = Descent(other.parameters(), 0.1)
    with capturing(losses=1) as store:
        train(torch.optim.SGD(model.parameters(), lr=0.1), model)
        assert vars(Descent)["step"] is own
    assert set(read_run(store)) == set(range(STEPS))
    del beside


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="data"),
        pytest.param({"under_no_grad": True}, id="no-grad"),
        pytest.param({"passes": 2}, id="accumulated"),
        pytest.param({"clears": False}, id="never-cleared"),
    ],
)
def test_steps_by_hand_are_captured(settings: dict[str, Any], capturing: Any, read_run: Any) -> None:
    torch.manual_seed(0)
    bare = nn.Sequential(nn.Linear(2, 1))
    model = copy.deepcopy(bare)
    train_by_hand(bare, **settings)
    own = torch.autograd.backward
    with capturing(losses=1, weights=1, gradients=1) as store:
        train_by_hand(model, **settings)
        kept = weakref.ref(model[0].weight)
    run = read_run(store)
    assert torch.autograd.backward is own
    assert torch.equal(model[0].weight, bare[0].weight)
    del model
    gc.collect()
    assert kept() is None
    assert set(run) == set(range(STEPS if settings.get("passes", 1) == 1 else STEPS + 1))
    first, second = run[0], run[1]
    assert "MSELoss_output_0" in first or "mse_loss_output_0" in first
    if settings.get("passes", 1) == 1:
        assert second["Sequential_0.weight"] == pytest.approx(
            first["Sequential_0.weight"] - 0.01 * first["gradient/Sequential_0.weight"], abs=1e-6
        )


def changing(model: nn.Module, look: Any) -> None:
    for _ in range(STEPS + LOST):
        model.zero_grad()
        torch.nn.functional.mse_loss(model(torch.ones(3, 2)), torch.zeros(3, 1)).backward()
        look(model)


def averaged(model: nn.Module) -> None:
    """Change a copy of the model, as an average of weights does."""
    with torch.no_grad():
        copy.deepcopy(model)[0].weight.mul_(0.9)  # type: ignore[index] # a Sequential


@pytest.mark.parametrize(
    ("look", "make"),
    [
        pytest.param(averaged, lambda: nn.Sequential(nn.Linear(2, 1)), id="average"),
        pytest.param(len, lambda: nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)), id="batch-norm"),
        pytest.param(
            len, lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(2, 1))), id="spectral-norm"
        ),
    ],
)
def test_what_changes_besides_weights_is_no_step(look: Any, make: Any, capturing: Any, read_run: Any) -> None:
    with capturing(losses=1) as store:
        changing(make(), look)
    assert not read_run(store)


def test_an_optimizer_that_comes_later_takes_the_training_over(capturing: Any, read_run: Any) -> None:
    model = nn.Sequential(nn.Linear(2, 1))
    with capturing(losses=1) as store:
        train_by_hand(model)
        train(torch.optim.SGD(model.parameters(), lr=0.1), model)
    assert set(read_run(store)) == set(range(2 * STEPS - 1))  # the last one by hand belongs to nobody
