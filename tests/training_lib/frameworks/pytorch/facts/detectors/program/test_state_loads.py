"""States that `load_state_dict` is given, and the facts of those without an effect."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.observations import IDLE_LOAD
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.records.model_facts import read_facts
from trackside.storage.local import LocalStore

State = Mapping[str, Any]


def wrapped(model: nn.Module) -> State:
    return {f"module.{name}": value.clone() for name, value in model.state_dict().items()}


def of_first_layer(model: nn.Module) -> State:
    return {name: value.clone() for name, value in model.state_dict().items() if name.startswith("0.")}


def same_but_one(model: nn.Module) -> State:
    return {**model.state_dict(), "0.bias": torch.ones(3)}


def own(model: nn.Module) -> State:
    return model.state_dict()


def copied(model: nn.Module) -> State:
    return copy.deepcopy(model.state_dict())


def load(model: nn.Module, state: Callable[[nn.Module], State]) -> None:
    """Load into the model, by assignment if the state's name says so."""
    model.load_state_dict(state(model), strict=False, assign=state in {assigned, own_assigned})


def assigned(model: nn.Module) -> State:
    return copied(model)


def own_assigned(model: nn.Module) -> State:
    return own(model)


def facts(
    run: Path, before: tuple[Callable[[nn.Module], State], ...], after: tuple[Callable[[nn.Module], State], ...]
) -> tuple[str, int, bool] | None:
    """Train with loads before and after it. Return the load without an effect, if the newest facts hold one."""
    adapter = PyTorchAdapter(CaptureEnvironment(str(run), CaptureRequest().to_json(), 0, 1))
    adapter.install()
    try:
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
        for state in before:
            load(model, state)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().mean().backward()
            optimizer.step()
        for state in after:
            load(model, state)
        del model
    finally:
        adapter.uninstall()
    found = IDLE_LOAD.of(read_facts(LocalStore(RunLocation(str(run)).tensors), "worker_0")[-1].program)
    if found is None:
        return None
    assert "test_state_loads.py:" in found.line
    return found.name, found.count, found.is_own


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        pytest.param((wrapped,), (), ("module.0.weight", 4, False), id="other-names"),
        pytest.param((), (wrapped,), ("module.0.weight", 4, False), id="other-names-at-the-end"),
        pytest.param((), (own,), ("0.weight", 4, True), id="the-models-own"),
        pytest.param((wrapped, copied), (), None, id="right-at-the-second-try"),
        pytest.param((of_first_layer,), (), None, id="a-part"),
        pytest.param((own,), (), None, id="its-own-before-it-trains"),
        pytest.param((), (copied,), None, id="a-copy"),
        pytest.param((), (assigned,), None, id="a-copy-by-assignment"),
        pytest.param((), (own_assigned,), ("0.weight", 4, True), id="the-models-own-by-assignment"),
        pytest.param((), (same_but_one,), None, id="its-own-but-for-one"),
        pytest.param((), (lambda _: {},), None, id="empty"),
        pytest.param((), (lambda model: model.to("meta").state_dict(),), None, id="without-values"),
        pytest.param((), (), None, id="none"),
    ],
)
def test_loads(
    before: tuple[Callable[[nn.Module], State], ...],
    after: tuple[Callable[[nn.Module], State], ...],
    found: tuple[str, int, bool] | None,
    tmp_path: Path,
) -> None:
    assert facts(tmp_path / "run", before, after) == found


def test_errors_and_answers_are_those_of_torch(tmp_path: Path) -> None:
    original = nn.Module.load_state_dict
    adapter = PyTorchAdapter(CaptureEnvironment(str(tmp_path / "run"), CaptureRequest().to_json(), 0, 1))
    adapter.install()
    try:
        model = nn.Linear(2, 1)
        answer = model.load_state_dict({"other": torch.ones(1)}, strict=False)
        assert (answer.missing_keys, answer.unexpected_keys) == (["weight", "bias"], ["other"])
        with pytest.raises(RuntimeError, match="Unexpected key"):
            model.load_state_dict({"other": torch.ones(1)})
        with pytest.raises(TypeError):
            model.load_state_dict(3)  # type: ignore[arg-type] # as a script might
    finally:
        adapter.uninstall()
    assert nn.Module.load_state_dict is original
