"""Targets of padding that a loss counts; silent where it ignores them, or where there is no padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.program.padded_targets import FEWEST, PaddedTargets

ROWS, PLACES, CLASSES = 12, 10, 4
SCORES = torch.zeros(ROWS * PLACES, CLASSES)


def padded(*, least: int = 2) -> tuple[Tensor, Tensor]:
    """Return tokens and targets, of which those of padding are 0."""
    tokens = torch.randint(1, 30, (ROWS, PLACES))
    targets = tokens % (CLASSES - 1) + 1
    is_padding = torch.arange(PLACES) >= torch.randint(least, PLACES - 1, (ROWS, 1))
    return tokens.masked_fill(is_padding, 0), targets.masked_fill(is_padding, 0)


def whole() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(1, 30, (ROWS, PLACES))
    return tokens, tokens % CLASSES


def answered() -> tuple[Tensor, Tensor]:
    """Return padding with targets of its own."""
    tokens, _ = padded()
    return tokens, torch.randint(CLASSES, tokens.shape)


def usual_elsewhere() -> tuple[Tensor, Tensor]:
    """Return a target of padding that most other tokens have, too: a class for none."""
    tokens, targets = padded()
    return tokens, targets.masked_fill(torch.rand(targets.shape) < 0.6, 0)


def in_text() -> tuple[Tensor, Tensor]:
    """Return rows that hold the token of their ends elsewhere."""
    tokens, targets = padded(least=4)
    tokens[:, 1] = 0
    return tokens, targets


def of_one_length() -> tuple[Tensor, Tensor]:
    tokens, targets = whole()
    tokens[:, -2:] = targets[:, -2:] = 0
    return tokens, targets


def for_rows() -> tuple[Tensor, Tensor]:
    return padded()[0], torch.randint(CLASSES, (ROWS,))


def ignoring(index: int = 0) -> nn.CrossEntropyLoss:
    return nn.CrossEntropyLoss(ignore_index=index)


@pytest.mark.parametrize(
    ("batch", "loss", "looks", "is_counted"),
    [
        pytest.param(padded, nn.CrossEntropyLoss(), FEWEST, True, id="counted"),
        pytest.param(padded, ignoring(3), 5, True, id="another class is ignored"),
        pytest.param(padded, nn.CrossEntropyLoss(), FEWEST - 1, False, id="too early to tell"),
        pytest.param(padded, ignoring(), 5, False, id="ignored"),
        pytest.param(padded, nn.CrossEntropyLoss(torch.tensor([0.0, 1, 1, 1])), 5, False, id="of no weight"),
        pytest.param(padded, nn.CrossEntropyLoss(reduction="none"), 5, False, id="masked by the script"),
        pytest.param(whole, nn.CrossEntropyLoss(), 5, False, id="no padding"),
        pytest.param(answered, nn.CrossEntropyLoss(), 5, False, id="padding with targets of its own"),
        pytest.param(usual_elsewhere, nn.CrossEntropyLoss(), 5, False, id="a class for none"),
        pytest.param(in_text, nn.CrossEntropyLoss(), 5, False, id="a token of the text"),
        pytest.param(of_one_length, nn.CrossEntropyLoss(), 5, False, id="rows of one length"),
        pytest.param(for_rows, nn.CrossEntropyLoss(), 5, False, id="one target for a row"),
    ],
)
def test_padding(batch: object, loss: nn.CrossEntropyLoss, looks: int, is_counted: bool) -> None:
    torch.manual_seed(0)
    seen, shares = PaddedTargets(Watch()), []
    table = nn.Embedding(30, 4)
    for _ in range(looks):
        tokens, targets = batch()  # type: ignore[operator]
        seen.called(table, (tokens,), {})
        seen.called(loss, (SCORES, targets.reshape(-1)), {})
        shares.append(float((tokens == 0).sum() / (targets != loss.ignore_index).sum()))
    found = seen.of(Watch())
    assert bool(found) is is_counted is bool(seen.changes())
    assert not is_counted or found == pytest.approx(sum(shares[:FEWEST]) / FEWEST, abs=1e-3)
