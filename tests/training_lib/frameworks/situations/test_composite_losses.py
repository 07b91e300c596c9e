"""A loss that is the sum of several: each under its own name with its own value, and the sum itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

Losses = dict[str, torch.Tensor]


def parts(scores: torch.Tensor, labels: torch.Tensor) -> Losses:
    wanted = functional.one_hot(labels, 3).float()
    return {
        "CrossEntropyLoss": nn.CrossEntropyLoss(weight=torch.tensor([0.2, 0.3, 0.5]))(scores, labels),
        "NLLLoss": functional.nll_loss(scores, labels, ignore_index=1, reduction="sum"),
        "MSELoss": functional.mse_loss(scores, wanted, reduction="none").mean(),
        "L1Loss": functional.l1_loss(scores, wanted),
        "BCEWithLogitsLoss": functional.binary_cross_entropy_with_logits(
            scores, wanted, weight=torch.full((3,), 0.7), pos_weight=torch.tensor([1.0, 2.0, 3.0])
        ),
        "BCELoss": functional.binary_cross_entropy(scores.sigmoid(), wanted),
        "HuberLoss": functional.huber_loss(scores, wanted, delta=0.3),
        "SmoothL1Loss": functional.smooth_l1_loss(scores, wanted, beta=0.2, reduction="sum"),
        "SoftMarginLoss": functional.soft_margin_loss(scores, 2 * wanted - 1),
    }


def weighted(losses: Losses) -> torch.Tensor:
    total = torch.zeros(())
    for number, loss in enumerate(losses.values()):
        total = total + loss * (0.1 * (number + 1))
    return total


def by_hand(losses: Losses) -> torch.Tensor:
    first, second, *others = losses.values()
    return (first - 0.5 * (second / 3 + sum(others))) * 2  # type: ignore[no-any-return] # of `sum`


@pytest.mark.parametrize(
    "combine",
    [
        pytest.param(lambda losses: sum(losses.values()), id="sum"),
        pytest.param(weighted, id="weighted"),
        pytest.param(by_hand, id="nested-and-scaled"),
        pytest.param(lambda losses: torch.stack(list(losses.values())).sum(), id="stacked"),
        pytest.param(lambda losses: torch.stack([0.5 * loss for loss in losses.values()]).mean(), id="mean-of-stacked"),
    ],
)
def test_each_part_is_saved_with_its_value(combine: Callable[[Losses], torch.Tensor], watching: Any) -> None:
    torch.manual_seed(0)
    expected = []
    with watching(losses=1) as saved:
        model = nn.Sequential(nn.Linear(4, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            losses = parts(model(torch.randn(5, 4)), torch.randint(0, 3, (5,)))
            loss = combine(losses)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            expected.append({f"{n}_output_0": v.item() for n, v in {**losses, "loss": loss}.items()})
    for tensors, values in zip(saved().values(), expected, strict=True):
        assert tensors.keys() == values.keys()
        for name, value in values.items():
            np.testing.assert_array_equal(tensors[name], np.float32(value), err_msg=name)


def test_two_of_a_kind_are_counted_and_the_scale_of_amp_is_undone(watching: Any) -> None:
    torch.manual_seed(0)
    with watching(losses=1, labels=1, predictions=1, metrics=1) as saved:
        model = nn.Sequential(nn.Linear(4, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        first, second = torch.randint(0, 3, (2, 5))
        scores = model(torch.randn(5, 4))
        losses = [functional.cross_entropy(scores, first), functional.cross_entropy(scores, second)]
        scaler.scale(losses[0] + 0.1 * losses[1]).backward()
        scaler.step(optimizer)
    (tensors,) = saved().values()
    names = [name for name in tensors if "output" in name]
    assert sorted(names) == ["CrossEntropyLoss_output_0", "CrossEntropyLoss_output_1", "loss_output_0"]
    for k, loss in enumerate(losses):
        np.testing.assert_array_equal(tensors[f"CrossEntropyLoss_output_{k}"], np.float32(loss.item()))
    total = (losses[0] + 0.1 * losses[1]).item()
    np.testing.assert_allclose(tensors["loss_output_0"], total, rtol=1e-6)
    np.testing.assert_array_equal(tensors["CrossEntropyLoss_input_1"], first)
    np.testing.assert_array_equal(tensors["CrossEntropyLoss_input_3"], second)
    right = np.mean([*(scores.argmax(1) == first).tolist(), *(scores.argmax(1) == second).tolist()])
    np.testing.assert_allclose(tensors["metrics/accuracy"], right, rtol=1e-6)


def smoothed(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores, labels, label_smoothing=0.1)


@pytest.mark.parametrize(
    ("loss_of", "names"),
    [
        pytest.param(smoothed, {"CrossEntropyLoss_output_0"}, id="smoothed-labels-are-one-loss"),
        pytest.param(
            lambda scores, labels: smoothed(scores, labels) + scores.square().mean(),
            {"loss_output_0"},
            id="smoothed-labels-and-one-by-hand",
        ),
        pytest.param(lambda scores, labels: scores.square().sum(), {"loss_output_0"}, id="by-hand"),
        pytest.param(
            lambda scores, labels: functional.cross_entropy(scores, labels) + 1.0,
            {"CrossEntropyLoss_output_0", "loss_output_0"},
            id="a-constant-added",
        ),
        pytest.param(
            lambda scores, labels: functional.cross_entropy(scores, labels) * scores.sum(),
            {"loss_output_0"},
            id="a-product",
        ),
    ],
)
def test_what_is_no_sum_of_known_losses(loss_of: Any, names: set[str], watching: Any) -> None:
    torch.manual_seed(0)
    with watching(losses=1) as saved:
        model = nn.Sequential(nn.Linear(4, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss_of(model(torch.randn(5, 4)), torch.randint(0, 3, (5,))).backward()
        optimizer.step()
    assert saved()[0].keys() == names


def test_a_script_that_writes_over_what_a_loss_keeps_loses_the_part_only(watching: Any, caplog: Any) -> None:
    torch.manual_seed(0)
    with watching(losses=1) as saved:
        model = nn.Sequential(nn.Linear(4, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        wanted = torch.zeros(5, 3)
        scores = model(torch.randn(5, 4))
        loss = scores.sum() + functional.mse_loss(scores.detach().requires_grad_(), wanted)
        wanted.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        optimizer.zero_grad()
        scores = model(torch.randn(5, 4))
        (functional.l1_loss(scores, wanted) + functional.mse_loss(scores, wanted)).backward()
        optimizer.step()
    assert {"loss_output_0", "loss_output_1", "L1Loss_output_0", "MSELoss_output_0"} == saved()[0].keys()
    assert [record for record in caplog.records if "is gone" in record.getMessage()]
