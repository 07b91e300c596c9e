"""The size of updates: that of the whole weights where the sample holds them all, and harmless where it holds none."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.training_lib.frameworks.pytorch.statistics.test_readings import capturing, column, opened, train
from trackside.capture.ground.irregular import is_place
from trackside.capture.statistics.budget import Intervals
from trackside.contracts.capture_request import StatisticsRequest
from trackside.contracts.run.recorded_names import UPDATE_SIZE
from trackside.frameworks.pytorch.statistics import update_size as module
from trackside.frameworks.pytorch.statistics.device_numbers import DeviceNumbers

AT_EACH = StatisticsRequest(budget=1.0)


class Weights:
    """What a training's weight matrices were after each step, copied by the test itself."""

    def __init__(self) -> None:
        self.after: list[np.ndarray] = []

    def note(self, model: nn.Module) -> None:
        matrices = [p.detach().double().reshape(-1) for p in model.parameters() if p.dim() > 1]
        self.after.append(torch.cat(matrices).numpy().copy())

    def sizes(self, first: int) -> list[float]:
        """|w' - w| / |w'| of the steps from `first` on."""
        pairs = zip(self.after[first - 1 :], self.after[first:], strict=False)
        return [float(np.linalg.norm(b - a) / np.linalg.norm(b)) for a, b in pairs]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="sgd"),
        pytest.param({"momentum": 0.9, "weight_decay": 0.1}, id="momentum-and-decay"),
        pytest.param({"optimizer_class": torch.optim.AdamW, "lr": 0.01}, id="adamw"),
        pytest.param({"with_closure": True}, id="closure"),
        pytest.param({"dtype": torch.float64}, id="float64"),
        pytest.param({"dtype": torch.bfloat16}, id="bfloat16"),
    ],
)
@pytest.mark.parametrize("interval", [1, 4])
def test_it_is_the_change_of_all_weights(tmp_path: Path, settings: dict[str, Any], interval: int) -> None:
    """Also where it is measured at some steps only: then before them, too."""
    statistics = StatisticsRequest(budget=1.0, dense_start_steps=0, dense_after_steps=0)
    weights = Weights()
    with capturing(tmp_path, statistics=statistics) as capture:
        capture.session.statistics.budget.intervals = Intervals(norms=64, dear=4096, updates=interval)
        # Before a step the weights are as the step before has left them.
        model, _ = train(15, before_step=lambda _step, model, _optimizer: weights.note(model), **settings)
    weights.note(model)
    found = column(opened(tmp_path), UPDATE_SIZE, "mean")
    assert sorted(found) == [step for step in range(1, 15) if is_place(step, interval)]
    if "with_closure" not in settings:
        tolerance = 1e-2 if settings.get("dtype") is torch.bfloat16 else 1e-5
        sizes = dict(enumerate(weights.sizes(2), 1))
        assert list(found.values()) == pytest.approx([sizes[step] for step in found], rel=tolerance)


def test_a_large_model_is_sampled_and_a_sample_is_about_the_whole(tmp_path: Path) -> None:
    weights = Weights()

    def large() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 200), nn.ReLU(), nn.Linear(200, 300), nn.ReLU(), nn.Linear(300, 3))

    with capturing(tmp_path, statistics=AT_EACH):
        model, _ = train(
            12,
            model_class=large,
            optimizer_class=torch.optim.Adam,
            lr=1e-3,
            before_step=lambda _step, model, _optimizer: weights.note(model),
        )
    weights.note(model)
    found = column(opened(tmp_path), UPDATE_SIZE, "mean")
    whole = weights.sizes(2)
    quotients = [found[step] / whole[step - 1] for step in range(1, 12)]
    assert max(quotients) / min(quotients) < 1.5, "it follows the whole, if not at the same height"


def test_weights_that_are_no_longer_finite(tmp_path: Path) -> None:
    def break_down(step: int, model: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if step == 4:
            next(model.parameters()).data[0, 0] = float("inf")

    with capturing(tmp_path, statistics=AT_EACH) as capture:
        train(8, before_step=break_down)
        assert capture.session.statistics.is_on
    found = column(opened(tmp_path), UPDATE_SIZE, "mean")
    assert [np.isfinite(found[step]) for step in range(1, 8)] == [True] * 3 + [False] * 4


def test_several_optimizers_count_together(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    weights = Weights()
    optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in (first, second)]
    with capturing(tmp_path, statistics=AT_EACH):
        for _ in range(8):
            loss = second(first(torch.randn(8, 4))).square().mean()
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            weights.note(nn.ModuleList([first, second]))
    found = column(opened(tmp_path), UPDATE_SIZE, "mean")
    assert [found[step] for step in range(2, 8)] == pytest.approx(weights.sizes(2), rel=1e-5)


def _with_bias_only(model: nn.Linear) -> nn.Module:
    model.weight.requires_grad_(False)
    return model


def _transposed(model: nn.Linear) -> nn.Module:
    model.weight = nn.Parameter(torch.randn(6, 3).t())
    return model


class OnlyComplex(nn.Module):
    """No weight that could be sampled."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 3, dtype=torch.complex64))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (values.to(torch.complex64) @ self.weight).abs()


@pytest.mark.parametrize(
    ("model_class", "has_any"),
    [
        pytest.param(lambda: _with_bias_only(nn.Linear(6, 3)), True, id="biases-alone"),
        pytest.param(OnlyComplex, False, id="complex"),
        pytest.param(lambda: _transposed(nn.Linear(6, 3)), True, id="not-contiguous"),
    ],
)
def test_odd_weights(tmp_path: Path, model_class: Callable[[], nn.Module], *, has_any: bool) -> None:
    with capturing(tmp_path, statistics=AT_EACH) as capture:
        train(6, model_class=model_class)
        assert capture.session.statistics.is_on
    assert bool(column(opened(tmp_path), UPDATE_SIZE, "mean")) is has_any


def test_weights_that_are_moved_are_sampled_anew(tmp_path: Path) -> None:
    def move(step: int, model: nn.Module, _optimizer: torch.optim.Optimizer) -> None:
        if step == 5:
            for parameter in model.parameters():
                parameter.data = parameter.data.clone()

    with capturing(tmp_path, statistics=AT_EACH):
        train(40, before_step=move)
    found = column(opened(tmp_path), UPDATE_SIZE, "mean")
    assert len(found) == 38, "neither the first step nor the first after the move has one before"
    assert all(size > 0 for step, size in found.items() if step > 16), "it is seen by the 16th step"


def test_numbers_on_a_device_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with capturing(tmp_path / "here", statistics=AT_EACH):
        train(10)
    here = column(opened(tmp_path / "here"), UPDATE_SIZE, "mean")
    with capturing(tmp_path / "late", statistics=AT_EACH) as capture:
        numbers: DeviceNumbers = capture.steps.sources.statistics.numbers
        monkeypatch.setattr(numbers, "is_late", lambda _tensor: True)
        train(10)
    assert column(opened(tmp_path / "late"), UPDATE_SIZE, "mean") == pytest.approx(here)


def test_nothing_is_held(tmp_path: Path) -> None:
    with capturing(tmp_path, statistics=AT_EACH) as capture:
        model, _ = train(4)
        parameter = weakref.ref(next(model.parameters()))
        storage = weakref.ref(next(model.parameters()).untyped_storage())
        del model
        gc.collect()
        assert parameter() is None
        assert not capture.steps.sources.update_size._samples
        assert storage() is None


def test_an_error_of_it_ends_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no sample today")

    monkeypatch.setattr(module, "chosen_weights", broken)
    with capturing(tmp_path, statistics=AT_EACH):
        _, losses = train(6)
    trial = opened(tmp_path)
    assert column(trial, "CrossEntropyLoss_output_0", "mean") == pytest.approx(dict(enumerate(losses)))
    assert not column(trial, UPDATE_SIZE, "mean")
    assert "no sample today" in caplog.text


def test_training_computes_the_same(tmp_path: Path) -> None:
    _, bare = train(12, optimizer_class=torch.optim.AdamW)
    with capturing(tmp_path, statistics=AT_EACH):
        _, captured = train(12, optimizer_class=torch.optim.AdamW)
    assert captured == bare
