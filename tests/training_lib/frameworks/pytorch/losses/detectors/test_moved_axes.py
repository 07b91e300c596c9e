"""Views that move an axis without a transposition; silent for cuts, joints, turned axes and shifts of positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.contracts.observations import JOINED_SAMPLES, MOVED_AXIS
from trackside.frameworks.pytorch.losses.description import describe_loss
from trackside.frameworks.pytorch.losses.detectors.moved_axes import moved
from trackside.frameworks.pytorch.losses.graph import facts_of

torch.set_num_threads(1)
ROWS, STEPS, WIDTH, HEADS, CLASSES = 10, 9, 16, 4, 5


@pytest.mark.parametrize(
    ("before", "after", "places", "is_certain"),
    [
        pytest.param((8, 24, 40), (8, 40, 24), 40, True, id="channels and steps"),
        pytest.param((32, 24, 6, 6), (32, 36, 24), 24, True, id="channels and places"),
        pytest.param((50, 18, 48), (50, 4, 18, 12), 18, True, id="heads"),
        pytest.param((50, 4, 18, 12), (50, 18, 48), 18, True, id="heads put together"),
        pytest.param((32, 48), (2, 32, 24), 32, True, id="states of two layers"),
        pytest.param((8, 3, 16, 32, 32), (128, 3, 32, 32), 3, True, id="frames of films"),
        pytest.param((16, 64, 32), (16, 32, 64), 64, False, id="a pyramid, or channels and steps"),
        pytest.param((18, 32, 64), (18, 64, 32), 64, False, id="heads put beside the batch of torch's attention"),
        pytest.param((32, 64, 6, 6), (32, 288, 8), 0, False, id="capsules"),
        pytest.param((5, 5 * 7), (25, 7), 0, False, id="all pairs"),
        pytest.param((4, 4, 17, 16), (4, 4, 16, 17), 0, False, id="rows shifted by one"),
        pytest.param((8, 16, 8, 8), (8, 2, 8, 4, 2, 4, 2), 0, False, id="cut into windows"),
        pytest.param((8, 16, 4, 4), (8, 256), 0, False, id="joined"),
        pytest.param((8, 1, 24), (8, 24, 1), 0, False, id="an axis of one"),
        pytest.param((0, 4, 6), (0, 6, 4), 0, False, id="nothing"),
        pytest.param((8, 6), (8, 6, 2), 0, False, id="no view"),
    ],
)
def test_shapes(before: Sequence[int], after: Sequence[int], places: int, is_certain: bool) -> None:
    found, certain = moved(before, after)
    assert found == places
    assert (certain and bool(found)) == is_certain


def of_features(read: Callable[[Tensor], Tensor], *, steps: int = STEPS) -> Tensor:
    """Return scores of a convolution's features, shape (rows, width, steps)."""
    found = read(torch.relu(nn.Conv1d(3, WIDTH, 3, padding=1)(torch.randn(ROWS, 3, steps))))
    return nn.Linear(found.shape[-1], CLASSES)(found).mean(1)


def of_states(read: Callable[[Tensor], Tensor], *, steps: int = STEPS) -> Tensor:
    """Return scores of a recurrent layer's outputs, shape (rows, steps, width)."""
    found = read(nn.GRU(3, WIDTH, batch_first=True)(torch.randn(ROWS, steps, 3))[0])
    return nn.Linear(found.shape[-1], CLASSES)(found).flatten(1, -2).mean(1)


def attention(cut: Callable[[Tensor], Tensor], *, joint: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def read(values: Tensor) -> Tensor:
        q, k, v = (cut(nn.Linear(WIDTH, WIDTH)(values)) for _ in range(3))
        return joint(functional.scaled_dot_product_attention(q, k, v))

    return read


def by_view(values: Tensor) -> Tensor:
    return values.reshape(ROWS, HEADS, STEPS, WIDTH // HEADS)


def turned(values: Tensor) -> Tensor:
    return values.view(ROWS, STEPS, HEADS, WIDTH // HEADS).transpose(1, 2)


def put_together(values: Tensor) -> Tensor:
    return values.transpose(1, 2).reshape(ROWS, STEPS, WIDTH)


def shifted(values: Tensor) -> Tensor:
    logits = values @ torch.randn(WIDTH, STEPS)
    return functional.pad(logits, (1, 0)).view(ROWS, STEPS + 1, STEPS)[:, 1:]


def of_torch(values: Tensor) -> Tensor:
    found: Tensor = nn.MultiheadAttention(WIDTH, 2, batch_first=True)(values, values, values)[0]
    return found


@pytest.mark.parametrize(
    ("scores", "places"),
    [
        pytest.param(lambda: of_features(lambda f: f.view(ROWS, STEPS, WIDTH)), 16, id="steps for channels"),
        pytest.param(lambda: of_features(lambda f: f.view(ROWS, 32, 16), steps=32), 32, id="of lengths that divide"),
        pytest.param(lambda: of_states(attention(by_view, joint=put_together)), STEPS, id="heads"),
        pytest.param(
            lambda: of_states(attention(turned, joint=lambda y: y.reshape(ROWS, STEPS, WIDTH))), STEPS, id="joint"
        ),
        pytest.param(lambda: of_features(lambda f: f.transpose(1, 2)), 0, id="steps and channels turned"),
        pytest.param(lambda: of_features(lambda f: f.permute(0, 2, 1).reshape(ROWS, -1, WIDTH)), 0, id="a copy"),
        pytest.param(lambda: of_states(attention(turned, joint=put_together)), 0, id="heads turned"),
        pytest.param(lambda: of_states(lambda h: h.reshape(ROWS, 16, 32), steps=32), 0, id="a pyramid"),
        pytest.param(lambda: of_states(lambda h: h.flatten(1)[:, None]), 0, id="joined"),
        pytest.param(lambda: of_states(shifted), 0, id="positions shifted"),
        pytest.param(lambda: of_states(of_torch), 0, id="torch's attention"),
    ],
)
def test_models(scores: Callable[[], Tensor], places: int) -> None:
    torch.manual_seed(0)
    end = functional.cross_entropy(scores(), torch.arange(ROWS) % CLASSES).grad_fn
    assert MOVED_AXIS.of(facts_of(end, describe_loss(end))) == places


@pytest.mark.parametrize(
    ("turn", "places"),
    [
        pytest.param(lambda s: s.view(ROWS, CLASSES, STEPS), STEPS, id="a view"),
        pytest.param(lambda s: s.transpose(1, 2), 0, id="turned"),
        pytest.param(lambda s: s.transpose(1, 2).contiguous().view(ROWS, CLASSES, STEPS), 0, id="a copy"),
    ],
)
def test_scores_of_a_sequence(turn: Callable[[Tensor], Tensor], places: int) -> None:
    torch.manual_seed(0)
    states = nn.GRU(3, WIDTH, batch_first=True)(torch.randn(ROWS, STEPS, 3))[0]
    end = functional.cross_entropy(turn(nn.Linear(WIDTH, CLASSES)(states)), torch.ones(ROWS, STEPS).long()).grad_fn
    assert MOVED_AXIS.of(facts_of(end, describe_loss(end))) == places


def test_joined_samples_are_named_once() -> None:
    torch.manual_seed(0)
    _, states = nn.GRU(3, WIDTH, 3, batch_first=True)(torch.randn(ROWS, STEPS, 3))
    end = functional.cross_entropy(nn.Linear(3 * WIDTH, CLASSES)(states.view(ROWS, -1)), torch.arange(ROWS) % 5).grad_fn
    facts = facts_of(end, describe_loss(end))
    assert (JOINED_SAMPLES.of(facts), MOVED_AXIS.of(facts)) == ("view", 0)


def test_a_parameter_may_be_viewed_at_will() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(6, 10))
    end = functional.mse_loss(torch.randn(ROWS, 10) @ weight.view(10, 6), torch.randn(ROWS, 6)).grad_fn
    assert MOVED_AXIS.of(facts_of(end, describe_loss(end))) == 0
