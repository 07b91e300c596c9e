"""Targets of cross entropy that name several classes in a row; silent for classes and probabilities."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from trackside.contracts.observations import SEVERAL_CLASSES
from trackside.frameworks.pytorch.losses.description import describe_loss
from trackside.frameworks.pytorch.losses.graph import facts_of

torch.manual_seed(0)
LAYER = torch.nn.Linear(8, 4)
ONE = functional.one_hot(torch.arange(16) % 4, 4).float()
TWO = ((ONE + ONE.roll(1, 1)) > 0).float()
HALF = torch.cat([ONE[:8], TWO[8:]])


@pytest.mark.parametrize(
    ("loss", "share"),
    [
        pytest.param(lambda s: functional.cross_entropy(s, TWO), 1.0, id="two-classes-in-each-row"),
        pytest.param(lambda s: functional.cross_entropy(s, HALF), 0.5, id="in-half-of-the-rows"),
        pytest.param(lambda s: 0.3 * functional.cross_entropy(s, TWO), 1.0, id="scaled"),
        pytest.param(lambda s: functional.cross_entropy(s, TWO, weight=torch.ones(4)), 1.0, id="weighted"),
        pytest.param(lambda s: functional.cross_entropy(s, ONE), 0.0, id="one-class-in-each-row"),
        pytest.param(lambda s: functional.cross_entropy(s, TWO / 2), 0.0, id="shares-of-two-classes"),
        pytest.param(lambda s: functional.cross_entropy(s, 0.9 * ONE + 0.025), 0.0, id="smoothed"),
        pytest.param(lambda s: functional.cross_entropy(s, ONE * 0), 0.0, id="nothing"),
        pytest.param(lambda s: functional.cross_entropy(s, ONE.argmax(1)), 0.0, id="numbers-of-classes"),
        pytest.param(lambda s: functional.binary_cross_entropy_with_logits(s, TWO), 0.0, id="each-by-itself"),
    ],
)
def test_rows_that_name_several_classes(loss: Callable[[Tensor], Tensor], share: float) -> None:
    end = loss(LAYER(torch.randn(16, 8))).grad_fn
    assert SEVERAL_CLASSES.of(facts_of(end, describe_loss(end))) == share
