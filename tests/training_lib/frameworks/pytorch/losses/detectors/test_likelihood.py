"""A log-probability that enters a loss by hand with a plus; silent where its sign is right, or cannot be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical
from torch.nn import functional

from trackside.frameworks.pytorch.losses.description import UNNAMED
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.detectors.likelihood import lowers_likelihood

LABELS, PAID = torch.tensor([0, 1, 2, 3, 0, 1]), torch.tensor([0.0, 1.0, 0.5, 2.0, 0.0, 1.0])
GAINED = PAID - PAID.mean()


def chosen(scores: Tensor) -> Tensor:
    return functional.log_softmax(scores, 1).gather(1, LABELS.unsqueeze(1))


def of_policy(scores: Tensor) -> Any:
    return Categorical(logits=scores).log_prob(LABELS)  # type: ignore[no-untyped-call] # torch's own omission


def entropy(scores: Tensor) -> Any:
    return Categorical(logits=scores).entropy().mean()  # type: ignore[no-untyped-call] # as above


def ratio(scores: Tensor) -> Tensor:
    """The gain of a clipped ratio to the policy before, as of PPO and GRPO."""
    own = chosen(scores)[:, 0]
    ratios = (own - own.detach()).exp()
    return torch.minimum(ratios * GAINED, ratios.clamp(0.8, 1.2) * GAINED).mean()


def divergence(scores: Tensor) -> Tensor:
    """The divergence from a reference, by samples: positive, and zero at the reference."""
    gap = -1.5 - chosen(scores)[:, 0]
    return (gap.exp() - gap - 1).mean()


def one_by_one(scores: Tensor, sign: float) -> Tensor:
    logs = of_policy(scores)
    return torch.stack([sign * logs[k] * float(PAID[k]) for k in range(len(PAID))]).sum()


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        pytest.param(lambda s: chosen(s).mean(), True, id="cross-entropy-without-its-minus"),
        pytest.param(lambda s: functional.log_softmax(s, 1)[range(6), LABELS].sum() / 6, True, id="by-index"),
        pytest.param(lambda s: functional.log_softmax(s @ s.T, 1).diagonal().mean(), True, id="contrast"),
        pytest.param(lambda s: (of_policy(s) * PAID).mean(), True, id="policy"),
        pytest.param(lambda s: 1.0 * (of_policy(s) * PAID).sum(), True, id="times-one"),
        pytest.param(lambda s: one_by_one(s, 1.0), True, id="one-by-one"),
        pytest.param(lambda s: (of_policy(s) * PAID).mean() - 0.01 * entropy(s), True, id="policy-and-entropy"),
        pytest.param(lambda s: -chosen(s).mean(), False, id="cross-entropy"),
        pytest.param(lambda s: -(of_policy(s) * PAID).mean(), False, id="right-policy"),
        pytest.param(lambda s: (of_policy(s) * -PAID).mean(), False, id="minus-in-the-rewards"),
        pytest.param(lambda s: one_by_one(s, -1.0), False, id="right-one-by-one"),
        pytest.param(lambda s: (of_policy(s) * GAINED).mean(), False, id="less-a-baseline"),
        pytest.param(lambda s: 0.04 * divergence(s) - ratio(s), False, id="ratio-and-divergence"),
        pytest.param(divergence, False, id="divergence-alone"),
        pytest.param(lambda s: -entropy(s), False, id="entropy"),
        pytest.param(lambda s: (s.softmax(1) * s.log_softmax(1)).sum(1).mean(), False, id="entropy-by-hand"),
        pytest.param(lambda s: s.log_softmax(1).mean(), False, id="nothing-chosen"),
        pytest.param(lambda s: (s.logsumexp(1) - s[range(6), LABELS]).mean(), False, id="by-logsumexp"),
        pytest.param(lambda s: functional.cross_entropy(s, LABELS), False, id="of-the-framework"),
    ],
)
def test_lowers_likelihood(loss: Callable[[Tensor], Tensor], expected: bool) -> None:
    torch.manual_seed(0)
    assert lowers_likelihood(SeenLoss(loss(torch.randn(6, 4, requires_grad=True) * 1.5).grad_fn, UNNAMED)) is expected
