"""A divergence that is given probabilities or scores for logarithms; none where it is given logarithms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.frameworks.pytorch.losses.description import UNNAMED
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.detectors.divergence import divergence_of

torch.manual_seed(0)
LAYER = nn.Linear(8, 5)
TARGETS = torch.randn(16, 5).softmax(1)
LABELS = TARGETS.argmax(1)


def divergence(scores: Tensor, **options: object) -> Tensor:
    return functional.kl_div(scores, TARGETS, **{"reduction": "batchmean", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("loss", "given"),
    [
        pytest.param(lambda s: divergence(s.softmax(1)), "probabilities", id="of-a-softmax"),
        pytest.param(lambda s: divergence((s / 3).softmax(1)) * 9, "probabilities", id="with-a-temperature"),
        pytest.param(
            lambda s: 0.9 * divergence(s.softmax(1)) + 0.1 * functional.cross_entropy(s, LABELS),
            "probabilities",
            id="beside-another-loss",
        ),
        pytest.param(lambda s: divergence(s.softmax(1), reduction="none").sum(1).mean(), "probabilities", id="by-rows"),
        pytest.param(lambda s: divergence(s, reduction="sum"), "scores", id="of-scores"),
        pytest.param(lambda s: divergence(s / 2), "scores", id="of-scores-with-a-temperature"),
        pytest.param(
            lambda s: functional.kl_div(s.softmax(1), TARGETS.log(), log_target=True, reduction="sum"),
            "probabilities",
            id="log-target",
        ),
        pytest.param(lambda s: divergence(s.log_softmax(1)), "", id="of-logarithms"),
        pytest.param(lambda s: divergence(s.softmax(1).log()), "", id="of-a-logarithm-of-a-softmax"),
        pytest.param(lambda s: divergence(s.softmax(1).clamp(min=1e-6).log()), "", id="of-a-clamped-one"),
        pytest.param(
            lambda s: functional.kl_div(s.log_softmax(1), TARGETS.log(), log_target=True, reduction="sum"),
            "",
            id="log-targets",
        ),
        pytest.param(lambda s: 1 - (TARGETS * s.softmax(1)).sum(1).mean(), "", id="an-overlap"),
        pytest.param(lambda s: (TARGETS - s.softmax(1)).square().mean(), "", id="a-difference"),
        pytest.param(lambda s: (torch.ones(16, 5) * 3 - 2 * s).mean(), "", id="no-probabilities"),
        pytest.param(lambda s: functional.cross_entropy(s, TARGETS), "", id="cross-entropy"),
    ],
)
def test_what_it_is_given(loss: Callable[[Tensor], Tensor], given: str) -> None:
    assert divergence_of(SeenLoss(loss(LAYER(torch.randn(16, 8))).grad_fn, UNNAMED)) == given
