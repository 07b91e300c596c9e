"""Hyperparameters, the optimizer's state, buffers, raw gradients, labels and accuracy, and what AMP skips."""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from trackside.frameworks.pytorch.ground.live_objects import instances
from trackside.frameworks.pytorch.losses.description import LossInputs, accuracy, inputs_in_graph
from trackside.frameworks.pytorch.optimizers.source import numbers_in, tensors_in

torch.set_num_threads(1)
VALUES, LABELS = torch.arange(24.0).reshape(4, 6) / 10, torch.tensor([0, 1, 2, 1])


def train(optimizer: torch.optim.Optimizer, model: nn.Module, steps: int = 1, **_: Any) -> None:
    for _step in range(steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(VALUES), LABELS).backward()
        optimizer.step()


# Hyperparameters and state


def test_hyperparameters_are_those_that_the_step_used(capturing: Any, read_run: Any) -> None:
    with capturing(hyperparameters=1) as store:
        model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
        groups = [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[1].parameters()}]
        optimizer = torch.optim.Adam(groups, lr=0.1, betas=(0.8, 0.9))
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for _ in range(2):
            train(optimizer, model)
            schedule.step()
    run = read_run(store)
    rates = [float(run[step]["hyperparameters/Adam/group_0/lr"]) for step in (0, 1)]
    assert rates == [0.5, 0.25]
    assert float(run[1]["hyperparameters/Adam/group_1/lr"]) == 0.05
    assert float(run[0]["hyperparameters/Adam/group_0/betas_1"]) == 0.9
    assert "hyperparameters/Adam/group_0/amsgrad" not in run[0]
    assert not [name for name in run[0] if "params" in name.split("/")[-1]]


def test_a_second_optimizer_of_a_class_has_a_number(capturing: Any, read_run: Any) -> None:
    with capturing(hyperparameters=1) as store:
        first, second = nn.Linear(6, 3), nn.Linear(6, 3)
        optimizers = [torch.optim.SGD(first.parameters(), lr=0.1), torch.optim.SGD(second.parameters(), lr=0.2)]
        for optimizer, model in zip(optimizers, (first, second), strict=True):
            train(optimizer, model)
    (step,) = read_run(store).values()
    assert float(step["hyperparameters/SGD/group_0/lr"]) == 0.1
    assert float(step["hyperparameters/SGD2/group_0/lr"]) == 0.2


@pytest.mark.parametrize(
    ("make", "keys"),
    [
        pytest.param(lambda p: torch.optim.Adam(p, lr=0.1), {"exp_avg", "exp_avg_sq", "step"}, id="adam"),
        pytest.param(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), {"momentum_buffer"}, id="momentum"),
        pytest.param(lambda p: torch.optim.SGD(p, lr=0.1), set(), id="stateless"),
    ],
)
def test_the_state_is_that_after_the_step(
    make: Callable[[Any], torch.optim.Optimizer], keys: set[str], capturing: Any, read_run: Any
) -> None:
    with capturing(optimizer_variables=1, losses=1) as store:
        model = nn.Sequential(nn.Linear(6, 3))
        optimizer = make(model.parameters())
        train(optimizer, model)
        expected = {
            f"optimizer/Sequential_0.weight/{key}": value.numpy().copy()
            for key, value in optimizer.state[model[0].weight].items()
            if value is not None
        }
    (step,) = read_run(store).values()
    names = {name for name in step if name.startswith("optimizer/Sequential_0.weight/")}
    assert names == {f"optimizer/Sequential_0.weight/{key}" for key in keys}
    for name in names:
        np.testing.assert_array_equal(step[name], expected[name])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(0.1, [("x", 0.1)], id="number"),
        pytest.param(torch.tensor(0.5), [("x", 0.5)], id="tensor"),
        pytest.param((0.9, 0.5), [("x_0", 0.9), ("x_1", 0.5)], id="tuple"),
        pytest.param(True, [], id="flag"),
        pytest.param(None, [], id="none"),
        pytest.param(torch.ones(3), [], id="several"),
        pytest.param("text", [], id="text"),
    ],
)
def test_numbers_of_a_setting(value: Any, expected: list[tuple[str, float]]) -> None:
    assert list(numbers_in("x", value)) == expected


def test_state_in_lists() -> None:
    assert [name for name, _ in tensors_in("x", [torch.ones(2), 3, [torch.ones(1)], None, True])] == [
        "x_0",
        "x_1",
        "x_2_0",
    ]


def test_buffers_are_those_after_the_forward_pass(capturing: Any, read_run: Any) -> None:
    with capturing(buffers=1) as store:
        model = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))
        train(torch.optim.SGD(model.parameters(), lr=0.1), model)
        expected = model[1].running_mean.numpy().copy()
    (step,) = read_run(store).values()
    prefix = "buffer/Sequential_1."
    assert sorted(step) == [f"{prefix}num_batches_tracked", f"{prefix}running_mean", f"{prefix}running_var"]
    np.testing.assert_array_equal(step[f"{prefix}running_mean"], expected)


def test_the_new_kinds_are_no_weights(capturing: Any, read_run: Any) -> None:
    with capturing(weights=1, biases=1, hyperparameters=10, optimizer_variables=10) as store:
        model = nn.Sequential(nn.Linear(6, 3))
        train(torch.optim.Adam(model.parameters()), model, steps=2)
    assert sorted(read_run(store)[1]) == ["Sequential_0.bias", "Sequential_0.weight"]


# Raw gradients


def by_norm(model: nn.Module) -> Any:
    return nn.utils.clip_grad_norm_(model.parameters(), 0.01)


def by_value(model: nn.Module) -> Any:
    return nn.utils.clip_grad_value_(model.parameters(), 0.01)


def twice(model: nn.Module) -> Any:
    by_value(model)
    return by_norm(model)


@pytest.mark.parametrize(
    ("clip", "has_norm"),
    [
        pytest.param(by_norm, True, id="norm"),
        pytest.param(by_value, False, id="value"),
        pytest.param(twice, True, id="twice"),
        pytest.param(lambda _model: None, False, id="not-clipped"),
    ],
)
def test_raw_gradients_are_those_before_clipping(
    clip: Callable[[nn.Module], Any], has_norm: bool, capturing: Any, read_run: Any
) -> None:
    with capturing(raw_gradients=2, gradients=1) as store:
        model = nn.Sequential(nn.Linear(6, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        raw: list[np.ndarray] = []
        used: list[np.ndarray] = []
        for _ in range(2):
            optimizer.zero_grad()
            functional.cross_entropy(model(VALUES), LABELS).backward()
            raw.append(model[0].weight.grad.numpy().copy())
            clip(model)
            used.append(model[0].weight.grad.numpy().copy())
            optimizer.step()
    run = read_run(store)
    np.testing.assert_array_equal(run[0]["raw_gradient/Sequential_0.weight"], raw[0])
    np.testing.assert_array_equal(run[1]["gradient/Sequential_0.weight"], used[1])
    assert ("raw_gradient/total_norm" in run[0]) == has_norm
    assert not any(name.startswith("raw") for name in run[1])


def test_a_function_taken_before_is_seen_and_no_module_is_loaded_for_that(
    capturing: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a notebook whose cells imported by name; beside it a module that loads, and raises, once it is used."""
    original = nn.utils.clip_grad_norm_
    script = ModuleType("imported_by_name")
    script.clip_grad_norm_ = original  # type: ignore[attr-defined] # as `from ... import` does
    source = tmp_path / "lazy.py"
    source.write_text("raise ImportError")
    spec = importlib.util.spec_from_file_location("lazy", source)
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lazy)
    for module in (script, lazy):
        monkeypatch.setitem(sys.modules, object.__getattribute__(module, "__name__"), module)
    with capturing(raw_gradients=1):
        assert script.clip_grad_norm_ is nn.utils.clip_grad_norm_ is not original
    assert script.clip_grad_norm_ is original
    with pytest.raises(ImportError):
        _ = lazy.anything


def test_clipping_takes_iterators_and_returns_what_it_did(capturing: Any) -> None:
    def run() -> list[float]:
        torch.manual_seed(0)
        model = nn.Linear(6, 3)
        functional.cross_entropy(model(VALUES), LABELS).backward()
        total = nn.utils.clip_grad_norm_(iter(model.parameters()), 0.01)
        single = nn.utils.clip_grad_norm_(model.weight, 0.001)
        return [float(total), float(single), float(model.weight.grad.sum())]  # type: ignore[union-attr] # it has one

    bare = run()
    with capturing(raw_gradients=1):
        assert run() == bare
        weight = nn.Parameter(torch.ones(1))
        weight.grad = torch.tensor([float("nan")])
        with pytest.raises(RuntimeError, match="non-finite"):
            nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)


# Labels, predictions, accuracy

SCORES = torch.tensor([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1], [0.2, 0.2, 0.6]])
BITS = torch.tensor([[1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("loss", "predictions", "labels", "expected"),
    [
        pytest.param("CrossEntropyLoss", SCORES, torch.tensor([1, 0, 0]), (2, 3), id="classes"),
        pytest.param("NLLLoss", SCORES, torch.tensor([1, -100, 0]), (1, 2), id="ignored"),
        pytest.param("CrossEntropyLoss", SCORES[0], torch.tensor(1), (1, 1), id="one-sample"),
        pytest.param("CrossEntropyLoss", SCORES.t()[None], torch.tensor([[1, 0, 2]]), (3, 3), id="a-picture"),
        pytest.param("BCELoss", torch.tensor([[0.9, 0.4], [0.6, 0.5]]), BITS, (3, 4), id="probabilities"),
        pytest.param("BCEWithLogitsLoss", torch.tensor([[2.0, -1.0], [0.1, -0.1]]), BITS, (2, 4), id="logits"),
        pytest.param("BCELoss", BITS, torch.full((2, 2), 0.3), None, id="soft-binary-labels"),
        pytest.param("CrossEntropyLoss", SCORES, SCORES, None, id="probabilities-as-labels"),
        pytest.param("CrossEntropyLoss", SCORES, torch.tensor([1, 0]), None, id="shapes-that-do-not-fit"),
        pytest.param("CrossEntropyLoss", SCORES, torch.tensor([-100] * 3), None, id="all-ignored"),
        pytest.param("MSELoss", BITS, BITS, None, id="regression"),
        pytest.param("loss", SCORES, torch.tensor([1, 0, 0]), None, id="unknown"),
    ],
)
def test_accuracy_where_the_inputs_tell_it(
    loss: str, predictions: torch.Tensor, labels: torch.Tensor, expected: tuple[int, int] | None
) -> None:
    assert accuracy(loss, LossInputs(predictions, labels, -100)) == expected


@pytest.mark.parametrize("kind", ["module", "function"])
def test_labels_predictions_and_accuracy_in_training(kind: str, capturing: Any, read_run: Any) -> None:
    criterion = nn.CrossEntropyLoss() if kind == "module" else functional.cross_entropy
    with capturing(labels=2, predictions=2, metrics=2) as store:
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        found: list[torch.Tensor] = []
        for _ in range(2):
            for _ in range(2):
                scores = model(VALUES)
                found.append(scores.detach())
                criterion(scores, LABELS).backward()
            optimizer.step()
    run = read_run(store)
    assert list(run) == [0]
    assert sorted(run[0]) == [*(f"CrossEntropyLoss_input_{k}" for k in range(4)), "metrics/accuracy"]
    expected = found[0] if kind == "module" else found[0].log_softmax(1)
    np.testing.assert_allclose(run[0]["CrossEntropyLoss_input_0"], expected.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(run[0]["CrossEntropyLoss_input_3"], LABELS.numpy())
    right = torch.cat([(scores.argmax(1) == LABELS) for scores in found[:2]]).float().mean()
    assert float(run[0]["metrics/accuracy"]) == pytest.approx(right.item())


@pytest.mark.parametrize(
    ("loss", "has_inputs"),
    [
        pytest.param(lambda x: functional.cross_entropy(x, LABELS), True, id="cross-entropy"),
        pytest.param(lambda x: functional.cross_entropy(x, LABELS, label_smoothing=0.1) / 2, False, id="sum"),
        pytest.param(lambda x: functional.mse_loss(x, x.detach() + 1), True, id="mse"),
        pytest.param(lambda x: functional.binary_cross_entropy_with_logits(x, x.detach()), True, id="binary"),
        pytest.param(lambda x: x.exp().mean(), False, id="by-hand"),
    ],
)
def test_a_graph_tells_what_a_loss_is_of(loss: Callable[[torch.Tensor], torch.Tensor], has_inputs: bool) -> None:
    node = loss(torch.ones(4, 3, requires_grad=True)).grad_fn
    assert (inputs_in_graph(node if has_inputs else None) is not None) == has_inputs
    if not has_inputs:
        assert inputs_in_graph(node) is None


def test_what_the_script_wrote_over_is_left_out(
    capturing: Any, read_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with capturing(labels=1, losses=1) as store:
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        target = torch.zeros(4, 3)
        loss = functional.mse_loss(model(VALUES), target)
        target.add_(1)
        with pytest.raises(RuntimeError, match="inplace"):
            loss.backward()
        optimizer.step()
    (step,) = read_run(store).values()
    assert list(step) == ["MSELoss_output_0"]
    assert len(caplog.records) == 1


# AMP


@pytest.mark.parametrize("fused", [pytest.param(False, id="plain"), pytest.param(True, id="fused")])
def test_skipped_steps_are_counted_and_told(fused: bool, capturing: Any, read_run: Any) -> None:
    with capturing(weights=1) as store:
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
        for factor in (1.0, float("inf"), float("inf"), 1.0):
            optimizer.zero_grad()
            scaler.scale(model(VALUES).sum() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
    run = read_run(store)
    name = "scalar/amp_skipped_steps"
    told = [step[name].item() for _, step in sorted(run.items()) if name in step]
    assert told == ([1, 2] if fused else [2])


def test_a_scaler_that_skips_nothing_tells_nothing(capturing: Any, read_run: Any) -> None:
    with capturing(weights=1) as store:
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
        for _ in range(2):
            scaler.scale(model(VALUES).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert not any(name.startswith("scalar") for step in read_run(store).values() for name in step)


class LeftOver(torch.optim.SGD):
    """Of an earlier training of the same process."""


def test_an_optimizer_that_only_waits_to_be_collected_is_none(capturing: Any, read_run: Any) -> None:
    """It would pass for one that is to step yet, and two steps for one; a script that tries many models leaves many."""
    left_over: Any = LeftOver([nn.Parameter(torch.ones(1))], 0.1)
    left_over.itself = left_over  # as schedulers and hooks bring it about
    model = nn.Linear(6, 3)
    gc.disable()  # else it may come by itself
    try:
        with capturing(losses=1) as store:
            del left_over
            assert len(instances(LeftOver)) == 1
            train(torch.optim.SGD(model.parameters(), 0.1), model, steps=3)
            assert instances(LeftOver) == []
    finally:
        gc.enable()
    assert [len(values) for _, values in sorted(read_run(store).items())] == [1, 1, 1]
