"""Decoders that read their own targets; silent where targets are shifted, and where a program reconstructs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.program.given_targets import ENOUGH, GivenTargets

ROWS, PLACES, WORDS = 8, 6, 20
Batch = tuple[list[Tensor], Tensor]


def tokens() -> Tensor:
    return torch.randint(WORDS, (ROWS, PLACES))


def unshifted() -> Batch:
    source, target = tokens(), tokens()
    return [source, target], target


def shifted() -> Batch:
    source, target = tokens(), tokens()
    return [source, target[:, :-1]], target[:, 1:]


def reconstructed() -> Batch:
    """Return an autoencoder's: its encoder reads the targets, its decoder those before."""
    whole = tokens()
    return [whole, torch.cat([torch.zeros(ROWS, 1, dtype=torch.int64), whole[:, :-1]], 1)], whole


def encoded() -> Batch:
    whole = tokens()
    return [whole], whole


def read_twice() -> Batch:
    whole = tokens()
    return [whole, whole], whole


def masked() -> Batch:
    source, target = tokens(), tokens()
    return [source, target.masked_fill(torch.rand(target.shape) < 0.3, 0)], target


def constant() -> Batch:
    target = torch.ones(ROWS, PLACES, dtype=torch.int64)
    return [tokens(), target], target


def for_rows() -> Batch:
    return [tokens(), tokens()], torch.randint(3, (ROWS * 8,))


@pytest.mark.parametrize(
    ("batch", "looks", "is_given"),
    [
        pytest.param(unshifted, ENOUGH, True, id="nobody shifts"),
        pytest.param(unshifted, ENOUGH - 1, False, id="too early to tell"),
        pytest.param(shifted, 5, False, id="shifted"),
        pytest.param(reconstructed, 5, False, id="an autoencoder with a decoder"),
        pytest.param(encoded, 5, False, id="an autoencoder"),
        pytest.param(read_twice, 5, False, id="read twice"),
        pytest.param(masked, 5, False, id="masked"),
        pytest.param(constant, 5, False, id="all targets alike"),
        pytest.param(for_rows, 5, False, id="one target for a row"),
    ],
)
def test_targets(batch: Callable[[], Batch], looks: int, is_given: bool) -> None:
    torch.manual_seed(0)
    seen, table, loss = GivenTargets(Watch()), nn.Embedding(WORDS, 4), nn.CrossEntropyLoss()
    for _ in range(looks):
        read, targets = batch()
        for each in read:
            seen.called(table, (each,), {})
        seen.called(loss, (torch.zeros(targets.numel(), WORDS), targets.reshape(-1)), {})
    assert seen.of(Watch()) == (ENOUGH if is_given else 0)
    assert seen.changes() == int(is_given)
