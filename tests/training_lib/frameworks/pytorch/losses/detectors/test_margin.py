"""The margin of a triplet loss, however it is written; none for other losses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.frameworks.pytorch.losses.description import UNNAMED
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.detectors.margin import margin

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def by_hand(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    return functional.relu(functional.pairwise_distance(a, p) - functional.pairwise_distance(a, n) + 0.25).mean()


def other_way_round(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    return functional.relu(0.25 - (functional.pairwise_distance(a, n) - functional.pairwise_distance(a, p))).mean()


def of_squares(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    return torch.clamp((a - p).pow(2).sum(1) - (a - n).pow(2).sum(1) + 0.25, min=0).mean()


def of_roots(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    return (((a - p) ** 2).sum(-1).sqrt() - ((a - n) ** 2).sum(-1).sqrt() + 0.25).clamp_min(0).mean()


def of_norms(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    return functional.relu(torch.linalg.vector_norm(a - p, dim=1) - (a - n).norm(dim=1) + 0.25).mean()


def without(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    return functional.relu(functional.pairwise_distance(a, p) - functional.pairwise_distance(a, n)).mean()


def three_terms(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    return functional.relu((a - p).norm(dim=1) - (a - n).norm(dim=1) + p.norm(dim=1) + 0.25).mean()


def ranking(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    return functional.margin_ranking_loss(a[:, 0], p[:, 0], torch.ones(len(n)), 0.25)


def absolute(a: Tensor, p: Tensor, n: Tensor) -> Tensor:
    return functional.relu((a - p).abs().sum(1) - (a - n).abs().sum(1) + 0.25).mean()


LOSSES: list[tuple[str, Loss, float | None]] = [
    ("module", nn.TripletMarginLoss(margin=0.25), 0.25),
    ("with-distance", nn.TripletMarginWithDistanceLoss(margin=0.25), 0.25),
    ("by-hand", by_hand, 0.25),
    ("other-way-round", other_way_round, 0.25),
    ("of-squares", of_squares, 0.25),
    ("of-roots", of_roots, 0.25),
    ("of-norms", of_norms, 0.25),
    ("without", without, 0.0),
    ("three-terms", three_terms, 0.0),
    ("ranking", ranking, 0.0),
    ("absolute", absolute, 0.0),
    ("sum", nn.TripletMarginLoss(reduction="sum"), 0.0),
    ("squared-error", lambda a, p, _: functional.mse_loss(a, p), 0.0),
    ("rectified", lambda a, _, __: functional.relu(a).mean(), 0.0),
]


@pytest.mark.parametrize(("loss", "expected"), [pytest.param(*row[1:], id=row[0]) for row in LOSSES])
def test_margin(loss: Loss, expected: float) -> None:
    torch.manual_seed(0)
    found = margin(SeenLoss(loss(*(torch.randn(16, 4, requires_grad=True) for _ in range(3))).grad_fn, UNNAMED))
    assert found == pytest.approx(expected, abs=1e-5)
