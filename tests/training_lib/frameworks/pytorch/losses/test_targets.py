"""Targets that do not fit their predictions: beyond the reach of the last function, or one for several predictions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.contracts.model_facts import LossFacts
from trackside.contracts.observations import BEYOND_REACH, COMPARED_WITH
from trackside.frameworks.pytorch.losses import graph
from trackside.frameworks.pytorch.losses.description import describe_loss

LABELS = torch.tensor([0, 1, 2, 3, 0, 1])
ROW = torch.arange(6.0)
COLUMN = LABELS.unsqueeze(1)
YES = (LABELS > 1).float().unsqueeze(1).expand(6, 4)
AROUND_ZERO = torch.linspace(-1.5, 1.5, 24).reshape(6, 4)  # half of them below zero, a third beyond one on either side
ABOVE_ZERO = AROUND_ZERO.abs()

Loss = Callable[[Tensor], Tensor]


def facts_of(loss: Loss, *, inputs_need_gradients: bool = True) -> LossFacts:
    """Return the facts of a loss of a linear layer's output, shape (6, 4)."""
    torch.manual_seed(0)
    inputs = torch.randn(6, 3, requires_grad=inputs_need_gradients)
    value = loss(nn.Linear(3, 4)(inputs))
    return graph.facts_of(value.grad_fn, describe_loss(value.grad_fn))


@pytest.mark.parametrize(
    ("loss", "share"),
    [
        pytest.param(lambda s: functional.cross_entropy(s.relu(), LABELS), 1.0, id="scores-behind-relu"),
        pytest.param(lambda s: functional.cross_entropy(s.clamp(min=0), LABELS), 1.0, id="scores-behind-clamp"),
        pytest.param(lambda s: functional.cross_entropy(functional.softplus(s), LABELS), 1.0, id="behind-softplus"),
        pytest.param(
            lambda s: functional.binary_cross_entropy_with_logits(s.sigmoid(), YES), 1.0, id="sigmoid-before-logits"
        ),
        pytest.param(lambda s: functional.mse_loss(s.relu(), AROUND_ZERO), 0.5, id="values-behind-relu"),
        pytest.param(lambda s: functional.mse_loss(AROUND_ZERO, s.relu()), 0.5, id="the-other-way-round"),
        pytest.param(lambda s: functional.mse_loss(s.relu(), AROUND_ZERO) / 4, 0.5, id="and-a-factor"),
        pytest.param(lambda s: functional.huber_loss(s.tanh(), AROUND_ZERO), 8 / 24, id="values-behind-tanh"),
        pytest.param(lambda s: functional.smooth_l1_loss(s.sigmoid(), ABOVE_ZERO), 8 / 24, id="behind-sigmoid"),
        pytest.param(lambda s: functional.l1_loss(s.relu(), AROUND_ZERO), 0.5, id="l1-behind-relu"),
        pytest.param(lambda s: functional.l1_loss(s.clamp(min=0), AROUND_ZERO), 0.5, id="l1-behind-clamp"),
        pytest.param(lambda s: (AROUND_ZERO - s.tanh()).square().mean(), 8 / 24, id="squared-by-hand"),
        pytest.param(lambda s: functional.cross_entropy(s, LABELS), 0.0, id="scores"),
        pytest.param(lambda s: functional.cross_entropy(s.clamp(-5, 5), LABELS), 0.0, id="scores-kept-small"),
        pytest.param(lambda s: functional.cross_entropy(s.tanh() * 9, LABELS), 0.0, id="scores-capped"),
        pytest.param(lambda s: functional.cross_entropy(s.softmax(1), LABELS), 0.0, id="double-softmax-has-its-rule"),
        pytest.param(lambda s: functional.cross_entropy(s.relu() @ s.T, LABELS), 0.0, id="a-layer-behind-the-relu"),
        pytest.param(lambda s: functional.nll_loss(s.softmax(1).log(), LABELS), 0.0, id="log-probabilities"),
        pytest.param(lambda s: functional.binary_cross_entropy(s.sigmoid(), YES), 0.0, id="probabilities"),
        pytest.param(lambda s: functional.binary_cross_entropy_with_logits(s, YES), 0.0, id="logits"),
        pytest.param(lambda s: functional.mse_loss(s, AROUND_ZERO), 0.0, id="values"),
        pytest.param(lambda s: functional.mse_loss(s.relu(), ABOVE_ZERO), 0.0, id="counts-behind-relu"),
        pytest.param(lambda s: functional.mse_loss(s.sigmoid(), YES), 0.0, id="shares-behind-sigmoid"),
        pytest.param(lambda s: functional.mse_loss(s.tanh(), AROUND_ZERO.clamp(-1, 1)), 0.0, id="pixels-behind-tanh"),
        pytest.param(lambda s: functional.mse_loss(s.sin(), 9 * AROUND_ZERO), 0.0, id="an-unknown-function"),
        pytest.param(lambda s: (s.relu() - ABOVE_ZERO).square().mean(), 0.0, id="counts-by-hand"),
        pytest.param(lambda s: functional.l1_loss(s.relu(), ABOVE_ZERO), 0.0, id="counts-by-l1"),
        pytest.param(lambda s: (s - AROUND_ZERO).abs().mean(), 0.0, id="values-by-hand"),
        pytest.param(lambda s: (s.sin() - 9 * AROUND_ZERO).abs().mean(), 0.0, id="an-unknown-function-by-hand"),
    ],
)
def test_the_share_of_targets_beyond_reach(loss: Loss, share: float) -> None:
    assert BEYOND_REACH.of(facts_of(loss)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(torch.relu, "relu", id="relu"),
        pytest.param(lambda s: s.clamp(min=0), "relu", id="a-clamp-at-zero"),
        pytest.param(lambda s: s.clamp(-5, 5), "other", id="a-clamp-on-both-sides"),
        pytest.param(lambda s: s.clamp(min=-1), "other", id="a-clamp-elsewhere"),
    ],
)
def test_a_clamp_at_zero_is_a_relu(function: Loss, name: str) -> None:
    assert facts_of(lambda s: functional.cross_entropy(function(s), LABELS)).input_from == name


def by_hand(scores: Tensor) -> Tensor:
    return ((scores - COLUMN) ** 2).mean()


@pytest.mark.parametrize(
    ("loss", "count"),
    [
        pytest.param(by_hand, 4, id="squared"),
        pytest.param(lambda s: ((COLUMN - s) ** 2).sum() / 24, 4, id="the-other-way-round"),
        pytest.param(lambda s: (s - COLUMN).abs().mean(), 4, id="absolute"),
        pytest.param(lambda s: ((s - COLUMN) ** 2 * (COLUMN >= 0)).sum() / 24, 4, id="masked"),
        pytest.param(lambda s: (s - COLUMN).square().mean(), 4, id="by-square"),
        pytest.param(lambda s: ((s - functional.one_hot(LABELS, 4)) ** 2).mean(), 0, id="one-of-four"),
        pytest.param(lambda s: ((s - COLUMN / 2) ** 2).mean(), 0, id="one-value-for-all"),
        pytest.param(lambda s: ((s - (COLUMN + 1)) ** 2).mean(), 0, id="beyond-the-classes"),
        pytest.param(lambda s: ((s[:, :1] - COLUMN) ** 2).mean(), 0, id="a-value-of-one"),
        pytest.param(lambda s: ((s.tanh() - COLUMN) ** 2).mean(), 0, id="behind-another-function"),
        pytest.param(lambda s: (s - COLUMN.flip(1) * s).abs().mean(), 0, id="a-product"),
        pytest.param(lambda s: s.square().mean(), 0, id="a-penalty"),
    ],
)
def test_scores_that_meet_the_number_of_their_class(loss: Loss, count: int) -> None:
    assert COMPARED_WITH.of(facts_of(loss)) == count
    assert COMPARED_WITH.of(facts_of(loss, inputs_need_gradients=False)) == count


def as_a_row(scores: Tensor) -> Tensor:
    return ROW - scores[:, :1]  # (n,) less (n, 1)


def energy(scores: Tensor) -> Tensor:
    one = scores[:, :1]
    return (one - ROW).abs().mean() - (one - one.T).abs().mean() / 2


@pytest.mark.parametrize(
    ("loss", "count"),
    [
        pytest.param(lambda s: as_a_row(s).square().mean() + s.exp().mean(), 6, id="one-of-two"),
        pytest.param(lambda s: s.exp().mean() - 0.5 * (s.sum(1) * as_a_row(s).detach()).mean(), 6, id="advantages"),
        pytest.param(lambda s: s.exp().mean() + (s.sin().mean() + by_hand(s)), 4, id="classes-in-a-sum-of-sums"),
        pytest.param(energy, 0, id="an-energy-distance"),
        pytest.param(lambda s: (ROW - s[:, 0]).square().mean() + s.exp().mean(), 0, id="each-its-own"),
        pytest.param(lambda s: s.square().mean() + s.exp().mean(), 0, id="penalties"),
    ],
)
def test_terms_of_a_sum(loss: Loss, count: int) -> None:
    assert COMPARED_WITH.of(facts_of(loss)) == count


def test_a_layer_without_a_bias_is_read_too() -> None:
    for weight in (torch.randn(3, 4, requires_grad=True), torch.randn(4, 3, requires_grad=True).t()):
        value = by_hand(torch.randn(6, 3) @ weight)
        assert COMPARED_WITH.of(graph.facts_of(value.grad_fn, describe_loss(value.grad_fn))) == 4


def test_a_layer_with_inputs_of_three_dimensions_is_read_too() -> None:
    scores = nn.Linear(3, 4)(torch.randn(3, 2, 3).transpose(0, 1))  # a product and a bias by itself: not contiguous
    value = by_hand(scores.reshape(6, 4))
    assert COMPARED_WITH.of(graph.facts_of(value.grad_fn, describe_loss(value.grad_fn))) == 4


def test_a_sum_of_two_layers_is_unknown() -> None:
    inputs = torch.randn(6, 3)
    value = by_hand(nn.Linear(3, 4)(inputs) + nn.Linear(3, 4)(inputs))
    assert COMPARED_WITH.of(graph.facts_of(value.grad_fn, describe_loss(value.grad_fn))) == 0


def test_what_was_written_over_is_unknown() -> None:
    inputs = torch.randn(6, 3)
    value = by_hand(nn.Linear(3, 4)(inputs))
    inputs.zero_()
    assert COMPARED_WITH.of(graph.facts_of(value.grad_fn, describe_loss(value.grad_fn))) == 0
