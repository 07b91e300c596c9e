"""Columns of one target in a squared error: the numbers of a plain computation, and what is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from trackside.frameworks.pytorch.losses.target_columns import column_numbers

ROWS = 32


def rows(*deviations: float) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(ROWS, len(deviations)) * torch.tensor(deviations) + 5


def numbers(targets: torch.Tensor, *, loss: Callable[..., torch.Tensor] = functional.mse_loss) -> Any:
    torch.manual_seed(1)
    predictions = torch.randn(targets.shape, requires_grad=True)
    return predictions.detach().numpy(), column_numbers(loss(predictions, targets).grad_fn)


def within_a_sum(predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return 0.5 * functional.mse_loss(predictions, targets, reduction="sum") + predictions.abs().mean()


@pytest.mark.parametrize("loss", [functional.mse_loss, within_a_sum], ids=["alone", "within a sum"])
def test_the_numbers_are_those_of_a_plain_computation(loss: Any) -> None:
    targets = rows(1, 300, 0.2)
    predictions, found = numbers(targets, loss=loss)
    values = targets.numpy().astype(np.float64)
    errors = ((predictions - values) ** 2).mean(0) / values.var(0)
    assert float(found.scale) == pytest.approx(values[:, 1].std() / values[:, 2].std(), rel=1e-4)
    assert float(found.small_error) == pytest.approx(errors[2], rel=1e-4)
    assert float(found.large_error) == pytest.approx(errors[1], rel=1e-4)


def flags(targets: torch.Tensor) -> torch.Tensor:
    return torch.cat([targets, (targets[:, :1] > 5).float() * 1e-3], 1)


@pytest.mark.parametrize(
    ("targets", "scale"),
    [
        pytest.param(functional.one_hot(torch.arange(ROWS) % 4, 4).float(), 1.0, id="one-hot"),
        pytest.param(flags(rows(400)), 1.0, id="a flag beside a number"),
        pytest.param(torch.cat([rows(400), torch.zeros(ROWS, 1)], 1), 1.0, id="a column that is constant"),
        pytest.param(torch.zeros(ROWS, 3), 1.0, id="all constant"),
    ],
)
def test_columns_of_few_values_do_not_count(targets: torch.Tensor, scale: float) -> None:
    _, found = numbers(targets)
    assert float(found.scale) == scale


@pytest.mark.parametrize(
    "targets",
    [
        pytest.param(rows(1), id="one column"),
        pytest.param(rows(*[1.0] * 40), id="many columns"),
        pytest.param(rows(1, 300)[:4], id="few rows"),
        pytest.param(torch.randn(8, 3, 6, 6), id="images"),
    ],
)
def test_other_shapes_are_left_out(targets: torch.Tensor) -> None:
    assert numbers(targets)[1] is None


def test_another_loss_is_left_out() -> None:
    assert numbers(rows(1, 300), loss=functional.smooth_l1_loss)[1] is None
