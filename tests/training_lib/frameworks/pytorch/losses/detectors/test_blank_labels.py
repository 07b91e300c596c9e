"""Labels of CTC that are its blank; silent for padding beyond the length of a row, and for other losses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from trackside.contracts.observations import BLANK_LABELS
from trackside.frameworks.pytorch.losses.description import describe_loss
from trackside.frameworks.pytorch.losses.graph import facts_of

torch.set_num_threads(1)
PLACES, ROWS, CLASSES = 12, 2, 5
LENGTHS = torch.full((ROWS,), PLACES)


def ctc(labels: list[list[int]], lengths: list[int], *, blank: int = 0, joined: bool = False) -> Tensor:
    scores = torch.randn(PLACES, ROWS, CLASSES, requires_grad=True).log_softmax(-1)
    given = torch.tensor([one for row in labels for one in row]) if joined else torch.tensor(labels)
    return nn.functional.ctc_loss(scores, given, LENGTHS, torch.tensor(lengths), blank=blank)


@pytest.mark.parametrize(
    ("loss", "share"),
    [
        pytest.param(lambda: ctc([[0, 1, 2], [1, 2, 3]], [3, 3]), 1 / 6, id="a-label"),
        pytest.param(lambda: ctc([[1, 2], [4, 3]], [2, 2], blank=4, joined=True), 1 / 4, id="another-blank"),
        pytest.param(lambda: 0.3 * ctc([[0, 1], [1, 2]], [2, 2]) + torch.ones(1).sum(), 1 / 4, id="in-a-sum"),
        pytest.param(lambda: ctc([[1, 2, 0], [1, 2, 3]], [2, 3]), 0.0, id="padding"),
        pytest.param(lambda: ctc([[1, 2], [4, 3]], [2, 2], joined=True), 0.0, id="none"),
        pytest.param(
            lambda: nn.functional.cross_entropy(torch.randn(3, 4, requires_grad=True), torch.tensor([0, 1, 2])),
            0.0,
            id="another-loss",
        ),
    ],
)
def test_labels_that_are_the_blank(loss: Callable[[], Tensor], share: float) -> None:
    end = loss().grad_fn
    assert BLANK_LABELS.of(facts_of(end, describe_loss(end))) == pytest.approx(share)
