"""Units that are steps: at one flat end of tanh or sigmoid for some samples, and at the other for the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trackside.frameworks.pytorch.losses.description import UNNAMED
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.detectors.saturation import step_share


@pytest.mark.parametrize(
    ("activate", "share"),
    [
        pytest.param(lambda x: torch.tanh(50 * x), 1.0, id="a-steep-tanh"),
        pytest.param(lambda x: torch.sigmoid(80 * x), 1.0, id="a-steep-sigmoid"),
        pytest.param(lambda x: torch.nn.Tanh()(50 * x), 1.0, id="a-module"),
        pytest.param(lambda x: torch.tanh(50 * x[:, :, None, None].expand(-1, -1, 3, 3)), 1.0, id="images"),
        pytest.param(lambda x: torch.tanh(torch.tensor([50.0, 50, 50, 1, 1, 1]) * x), 0.5, id="half-of-the-units"),
        pytest.param(lambda x: torch.tanh(torch.tanh(50 * x)), 1.0, id="another-one-behind"),
        pytest.param(torch.tanh, 0.0, id="tanh"),
        pytest.param(lambda x: torch.tanh(3 * x), 0.0, id="a-tanh-of-large-inputs"),
        pytest.param(lambda x: torch.sigmoid(x - 9), 0.0, id="a-gate-that-begins-closed"),
        pytest.param(lambda x: torch.sigmoid(x + 9), 0.0, id="a-gate-that-begins-open"),
        pytest.param(lambda x: torch.relu(50 * x), 0.0, id="relu"),
        pytest.param(lambda x: torch.softmax(50 * x, 1), 0.0, id="softmax"),
        pytest.param(lambda x: torch.tanh(50 * x[:4]), 0.0, id="too-few-samples"),
        pytest.param(lambda x: torch.tanh(50 * x[:, 0]), 0.0, id="no-units"),
        pytest.param(lambda x: torch.tanh(50 * x.detach()) * x, 0.0, id="no-part-of-the-graph"),
    ],
)
def test_the_share_of_units_that_are_steps(activate: Callable[[Tensor], Tensor], share: float) -> None:
    inputs = torch.randn(64, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert step_share(SeenLoss(activate(inputs).square().mean().grad_fn, UNNAMED)) == pytest.approx(share)


def test_what_was_written_over_is_an_error() -> None:
    hidden = torch.tanh(torch.randn(64, 6, requires_grad=True))
    loss = (hidden * 2).sum()
    hidden.add_(1)
    with pytest.raises(RuntimeError):
        step_share(SeenLoss(loss.grad_fn, UNNAMED))
