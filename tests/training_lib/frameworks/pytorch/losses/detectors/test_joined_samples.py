"""Operations that join the samples of a batch before a loss; silent for those of each sample, and between nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.contracts.observations import JOINED_SAMPLES
from trackside.frameworks.pytorch.losses.description import describe_loss
from trackside.frameworks.pytorch.losses.graph import facts_of

torch.set_num_threads(1)
ROWS, STEPS, WIDTH, CLASSES = 12, 5, 8, 3
Head = Callable[[Tensor], Tensor]


def with_states(read: Head, *, layers: int = 2) -> Tensor:
    """Return scores of the last states of a recurrent layer, shape (layers, rows, width)."""
    layer = nn.LSTM(4, WIDTH, layers, batch_first=True)
    _, (states, _) = layer(torch.randn(ROWS, STEPS, 4))
    found = read(states)
    return nn.Linear(found.shape[1], CLASSES)(found)


def with_values(read: Head, *, rows: int = ROWS) -> Tensor:
    """Return scores of activations, shape (rows, width)."""
    values = torch.relu(nn.Linear(6, WIDTH)(torch.randn(rows, 6)))
    found = read(values)
    return nn.Linear(found.shape[1], CLASSES)(found)


def with_messages() -> Tensor:
    sources, targets = torch.randint(ROWS, (2, 40))

    def read(values: Tensor) -> Tensor:
        normed = functional.normalize(values, dim=0)
        return torch.zeros(ROWS, WIDTH).index_add(0, targets, normed[sources])

    return with_values(read)


def with_windows() -> Tensor:
    """Return scores of images that were cut into windows and put together again, of as many places as images."""
    values = nn.Conv2d(1, 4, 1)(torch.randn(ROWS, 1, 2 * ROWS, 2 * ROWS)).permute(0, 2, 3, 1)
    windows = values.view(ROWS, 2, ROWS, 2, ROWS, 4).permute(0, 1, 3, 2, 4, 5).reshape(-1, ROWS, ROWS, 4)
    whole = windows.view(ROWS, 2, 2, ROWS, ROWS, 4)
    return nn.Linear(4, CLASSES)(whole.mean((1, 2, 3, 4)))


@pytest.mark.parametrize(
    ("scores", "joined"),
    [
        pytest.param(lambda: with_states(lambda h: h.view(ROWS, -1)), "view", id="states of layers in a view"),
        pytest.param(lambda: with_states(lambda h: h.reshape(ROWS, -1)), "view", id="the same by reshape"),
        pytest.param(lambda: with_values(lambda v: functional.normalize(v, dim=0)), "norm", id="a norm"),
        pytest.param(lambda: with_values(lambda v: v / v.norm(dim=0)), "norm", id="a norm by hand"),
        pytest.param(lambda: with_values(lambda v: v * v.softmax(0)), "softmax", id="a softmax"),
        pytest.param(lambda: with_values(lambda v: v.softmax(-2)), "softmax", id="a softmax along -2"),
        pytest.param(lambda: with_states(lambda h: h.transpose(0, 1).reshape(ROWS, -1)), "", id="turned before"),
        pytest.param(lambda: with_states(lambda h: torch.cat([h[0], h[1]], 1)), "", id="put side by side"),
        pytest.param(lambda: with_states(lambda h: h.view(ROWS, -1), layers=1), "", id="one layer"),
        pytest.param(lambda: with_values(lambda v: functional.normalize(v, dim=1)), "", id="a norm of each"),
        pytest.param(lambda: with_values(lambda v: v.softmax(1)), "", id="a softmax of each"),
        pytest.param(lambda: with_values(lambda v: v.view(ROWS, 2, -1).flatten(1)), "", id="views of each"),
        pytest.param(lambda: with_values(lambda v: v.softmax(0), rows=WIDTH), "", id="a square"),
        pytest.param(with_messages, "", id="messages between nodes"),
        pytest.param(with_windows, "", id="windows of images"),
    ],
)
def test_joined_samples(scores: Callable[[], Tensor], joined: str) -> None:
    torch.manual_seed(0)
    found = scores()
    loss = functional.cross_entropy(found, torch.arange(len(found)) % CLASSES)
    assert JOINED_SAMPLES.of(facts_of(loss.grad_fn, describe_loss(loss.grad_fn))) == joined
