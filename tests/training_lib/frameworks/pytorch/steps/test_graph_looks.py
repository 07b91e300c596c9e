"""Looks into the graph of a loss: on the same steps everywhere, harmless, and without a trace between them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.training_lib.frameworks.pytorch.statistics.test_readings import capturing, column, opened
from trackside.contracts.capture_request import StatisticsRequest
from trackside.contracts.run.recorded_names import STEP_WEIGHT, TOKEN_WEIGHTS, TURNED_TARGETS, loss_term
from trackside.frameworks.pytorch.steps import graph_looks as module
from trackside.frameworks.pytorch.steps.graph_looks import next_look

STEPS = 70


def train(noted: list[int]) -> list[torch.Tensor]:
    """A sum of two terms; a hook and a kept gradient of the script's own on what they share."""
    torch.manual_seed(0)
    trunk, head = nn.Linear(6, 4), nn.Linear(4, 3)
    optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.1)
    for step in range(STEPS):
        x = torch.randn(12, 6)
        shared = trunk(x)
        shared.retain_grad()
        shared.register_hook(lambda gradient, step=step: noted.append(step))
        optimizer.zero_grad()
        (functional.cross_entropy(head(shared.relu()), torch.arange(12) % 3) + shared.pow(2).mean()).backward()
        optimizer.step()
    assert shared.grad is not None
    return [shared.grad, *(p.detach() for p in (*trunk.parameters(), *head.parameters()))]


def test_they_change_nothing(tmp_path: Path) -> None:
    alone: list[int] = []
    watched: list[int] = []
    wanted = train(alone)
    with capturing(tmp_path, statistics=StatisticsRequest()):
        found = train(watched)
    assert watched == alone
    assert all(torch.equal(one, other) for one, other in zip(wanted, found, strict=True))
    looked = [1, 5, 10, 15, 20, 40, 60]
    for number in range(2):
        assert sorted(column(opened(tmp_path), loss_term(number), "l2")) == looked
    assert sorted(column(opened(tmp_path), loss_term(0), "mean")) == looked
    assert not column(opened(tmp_path), loss_term(1), "mean"), "a term by hand has no known value"


def test_an_error_ends_looks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(module, "TermGradients", broken)
    with capturing(tmp_path, statistics=StatisticsRequest()) as capture:
        train([])
        assert capture.steps.sources.losses.looks.due > 10 * STEPS, "no step is looked at any more"
    assert len(column(opened(tmp_path), "loss_output_0", "mean")) == STEPS


@pytest.mark.parametrize(
    ("step", "wanted"),
    [(1, 5), (5, 10), (19, 20), (20, 40), (199, 200), (200, 223), (2000, 2236), (10**6, 1000033)],
)
def test_steps_follow_from_their_number(step: int, wanted: int) -> None:
    assert next_look(step) == wanted


class TinyForCausalLM(nn.Module):
    """A model of tokens, by a name as of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.embedding(tokens))
        return out


def accumulate(*, divides_by_all: bool, batches: int = 2) -> None:
    """Train with batches of 3 and 9 tokens in turns, of which two make a step."""
    torch.manual_seed(0)
    model, rows = TinyForCausalLM(), [torch.randint(0, 16, (3 if k % 2 else 9,)) for k in range(60 * batches)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader: torch.utils.data.DataLoader[torch.Tensor] = torch.utils.data.DataLoader(rows, batch_size=1)  # type: ignore[arg-type] # a list is a data set
    for number, tokens in enumerate(loader):
        scores = model(tokens)[:, :-1].flatten(0, 1)
        reduction = "sum" if divides_by_all else "mean"
        loss = functional.cross_entropy(scores, tokens[:, 1:].flatten(), reduction=reduction)
        (loss / (10 if divides_by_all else batches)).backward()
        if number % batches == batches - 1:
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize(("divides_by_all", "ratio"), [(False, 4.0), (True, 1.0)])
def test_tokens_of_a_step_are_weighed(tmp_path: Path, *, divides_by_all: bool, ratio: float) -> None:
    with capturing(tmp_path, statistics=StatisticsRequest()):
        accumulate(divides_by_all=divides_by_all)
    found = column(opened(tmp_path), TOKEN_WEIGHTS, "mean")
    assert len(found) >= 5
    assert list(found.values()) == pytest.approx([ratio] * len(found))
    assert list(column(opened(tmp_path), STEP_WEIGHT, "mean").values()) == pytest.approx([1.0] * len(found))


def test_a_step_of_one_pass_has_no_weights(tmp_path: Path) -> None:
    with capturing(tmp_path, statistics=StatisticsRequest()):
        accumulate(divides_by_all=False, batches=1)
    assert not column(opened(tmp_path), TOKEN_WEIGHTS, "mean")


def colour(*, is_flipped: bool, is_dense: bool) -> None:
    """Train a convolution on pictures, and targets for each place or for the whole."""
    torch.manual_seed(0)
    model = nn.Conv2d(1, 1, 3, padding=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(400):
        pictures = functional.interpolate(torch.randn(8, 1, 8, 8), size=16, mode="bilinear")
        wanted = pictures.flip(-1) if is_flipped else pictures
        found = model(pictures)
        optimizer.zero_grad()
        (
            functional.mse_loss(found, wanted) if is_dense else functional.mse_loss(found.mean(3), wanted.mean(3))
        ).backward()
        optimizer.step()


@pytest.mark.parametrize(
    ("is_flipped", "is_dense", "least", "most"),
    [
        pytest.param(True, True, 0.5, 1.0, id="flipped"),
        pytest.param(False, True, 0.0, 0.0, id="in place"),
        pytest.param(True, False, 0.0, 0.0, id="not for each place"),
    ],
)
def test_dense_targets_are_looked_at_a_few_times(
    tmp_path: Path, *, is_flipped: bool, is_dense: bool, least: float, most: float
) -> None:
    with capturing(tmp_path, statistics=StatisticsRequest()):
        colour(is_flipped=is_flipped, is_dense=is_dense)
    found = column(opened(tmp_path), TURNED_TARGETS, "mean")
    assert len(found) == (module._MOST_OF_TARGETS if is_dense else 0)
    assert all(least <= share <= most for share in found.values())
