"""Probes about labels: mistakes in the loss of a right model, beside the same loss as it should be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.training_lib.rehearsal.models import perceptron
from tests.training_lib.rehearsal.rehearsing import (
    CLASSES,
    ROWS,
    TOKENS,
    WORDS,
    Loss,
    answer,
    classify,
    rehearse,
    sentences,
    table,
)
from trackside.contracts.run.check import Answer, Outcome
from trackside.rehearsal.registry import all_probes

PROBES = {probe.name: probe for probe in all_probes()}
FAULT, OK, DOES_NOT_APPLY, NOT_TRIED = Outcome.FAULT, Outcome.OK, Outcome.DOES_NOT_APPLY, Outcome.NOT_TRIED
Batches = Sequence[tuple[torch.Tensor, torch.Tensor]]


def asked(probe: str, model: nn.Module, loss: Loss, batches: Batches) -> Answer:
    torch.manual_seed(0)
    return answer(rehearse(model, loss=loss, batches=batches), PROBES[probe])


def squared(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(model(values)[:, 0], labels.float())


def with_sign(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (model(values)[:, 0] - labels).mean()


def absolute_from_afar(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.l1_loss(model(values)[:, 0], labels.float() + 500)


def of_huge_outputs(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.l1_loss(model(values)[:, 0], labels.float())


def huge() -> nn.Module:
    model = perceptron(nn.ReLU())
    nn.init.constant_(model[2].bias, 1e12)
    return model


def test_labels_beside_huge_outputs_are_not_asked_about() -> None:
    found = asked("gradients-depend-on-labels", huge(), of_huge_outputs, table())
    assert (found.outcome, "so large" in found.observed) == (NOT_TRIED, True), found


def broadcast(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A table of all outputs, shape (N, 1), against all labels, shape (N,)."""
    return (model(values)[:, :1] - labels).square().mean()


def weighted(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(values), labels, weight=torch.arange(1.0, CLASSES + 1))


def without_labels(model: nn.Module, values: torch.Tensor, _labels: torch.Tensor) -> torch.Tensor:
    return model(values).square().mean()


@pytest.mark.parametrize(
    ("loss", "outcome"),
    [
        pytest.param(classify, OK, id="classes"),
        pytest.param(squared, OK, id="squared-error"),
        pytest.param(absolute_from_afar, OK, id="absolute-error-of-far-labels"),
        pytest.param(without_labels, DOES_NOT_APPLY, id="no-labels"),
        pytest.param(weighted, OK, id="weighted-classes"),
        pytest.param(with_sign, FAULT, id="error-with-its-sign"),
        pytest.param(broadcast, FAULT, id="all-against-all"),
    ],
)
def test_gradients_depend_on_labels(loss: Loss, outcome: Outcome) -> None:
    found = asked("gradients-depend-on-labels", perceptron(nn.ReLU()), loss, table())
    assert found.outcome is outcome, found


class Reader(nn.Module):
    """A recurrent model of tokens, with scores for each place: of one direction or both."""

    def __init__(self, *, looks_ahead: bool = False, classes: int = WORDS) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.body = nn.GRU(8, 8, batch_first=True, bidirectional=looks_ahead)
        self.head = nn.Linear(16 if looks_ahead else 8, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.body(self.words(tokens))[0])
        return scores


def next_tokens(steps: int = 4) -> Batches:
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(0, WORDS, (ROWS, TOKENS + 1), generator=generator) for _ in range(steps)]
    return [(text[:, :-1], text[:, 1:]) for text in texts]


def by_token(model: nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(tokens).reshape(-1, WORDS), labels.reshape(-1))


def of_the_first(model: nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(tokens)[:, 0], labels)


@pytest.mark.parametrize(
    ("looks_ahead", "loss", "batches", "outcome"),
    [
        pytest.param(False, by_token, next_tokens(), OK, id="one-direction"),
        pytest.param(True, by_token, next_tokens(), FAULT, id="both-directions"),
        pytest.param(True, by_token, [(x, x) for x, _ in next_tokens()], DOES_NOT_APPLY, id="labels-of-the-same-place"),
        pytest.param(True, of_the_first, sentences(), DOES_NOT_APPLY, id="a-class-for-each-sentence"),
    ],
)
def test_the_next_token_is_hidden(looks_ahead: bool, loss: Loss, batches: Batches, outcome: Outcome) -> None:
    found = asked("next-token-is-hidden", Reader(looks_ahead=looks_ahead), loss, batches)
    assert found.outcome is outcome, found


def scores_by(move: Callable[[torch.Tensor], torch.Tensor]) -> Loss:
    """Return a cross entropy of scores that were moved, shape (samples, places, classes), by labels of each place."""
    return lambda model, tokens, labels: functional.cross_entropy(move(model(tokens)), labels)


@pytest.mark.parametrize(
    ("loss", "outcome"),
    [
        pytest.param(by_token, OK, id="flattened"),
        pytest.param(scores_by(lambda scores: scores.transpose(1, 2)), OK, id="transposed"),
        pytest.param(scores_by(lambda scores: scores.movedim(2, 1).contiguous()), OK, id="moved"),
        pytest.param(scores_by(lambda scores: scores.view(ROWS, WORDS, TOKENS)), FAULT, id="viewed"),
        pytest.param(
            lambda model, tokens, labels: functional.cross_entropy(
                model(tokens).permute(2, 0, 1).reshape(-1, WORDS), labels.reshape(-1)
            ),
            FAULT,
            id="flattened-after-a-permutation",
        ),
        pytest.param(
            lambda model, tokens, labels: functional.cross_entropy(
                model(tokens)[:, :-1].reshape(-1, WORDS), labels[:, :-1].reshape(-1)
            ),
            OK,
            id="without-the-last",
        ),
        pytest.param(
            lambda model, tokens, labels: functional.mse_loss(model(tokens)[:, :, 0], labels.float()),
            OK,
            id="an-error",
        ),
        pytest.param(scores_by(lambda scores: scores.softmax(2).transpose(1, 2)), DOES_NOT_APPLY, id="more-than-moved"),
    ],
)
def test_scores_meet_their_labels(loss: Loss, outcome: Outcome) -> None:
    found = asked("scores-meet-labels", Reader(), loss, next_tokens())
    assert found.outcome is outcome, found


def in_products(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A contrastive loss: the first column holds the right answer of each row."""
    scores = model(values)
    return functional.cross_entropy(torch.cat([scores[:, :1], scores @ scores.T], 1), labels)


@pytest.mark.parametrize(
    ("loss", "change", "batches", "outcome"),
    [
        pytest.param(classify, 1, 40, OK, id="several-classes"),
        pytest.param(classify, 0, 40, FAULT, id="one-class"),
        pytest.param(classify, 0, 4, OK, id="one-class-of-few-labels"),
        pytest.param(in_products, 0, 40, DOES_NOT_APPLY, id="contrastive"),
    ],
)
def test_labels_differ(loss: Loss, change: int, batches: int, outcome: Outcome) -> None:
    rows = [(values, labels * change) for values, labels in table(batches)]
    found = asked("scores-meet-labels", perceptron(nn.ReLU()), loss, rows)
    assert (found.outcome, "labels are class 0 of" in found.observed) == (outcome, outcome is FAULT), found
    assert CLASSES > 1


def with_a_residual(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Errors at two places, as of an equation and its boundary, where nothing should be left."""
    residual = (model(values) - labels[:, None]).square().mean()
    return residual + functional.mse_loss(model(values), torch.zeros(ROWS, CLASSES))


def of_a_residual(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(model(values)[:, 0].exp() - labels, torch.zeros(ROWS))


@pytest.mark.parametrize(
    ("loss", "change", "batches", "outcome"),
    [
        pytest.param(squared, 1, 130, OK, id="several-numbers"),
        pytest.param(squared, 0, 130, FAULT, id="one-number"),
        pytest.param(squared, 0, 40, OK, id="one-number-of-few-labels"),
        pytest.param(with_a_residual, 1, 130, DOES_NOT_APPLY, id="one-of-two-errors"),
        pytest.param(of_a_residual, 1, 130, DOES_NOT_APPLY, id="a-residual"),
    ],
)
def test_numbers_differ(loss: Loss, change: int, batches: int, outcome: Outcome) -> None:
    rows = [(values, labels * change) for values, labels in table(batches)]
    found = asked("scores-meet-labels", perceptron(nn.ReLU()), loss, rows)
    assert (found.outcome, "labels are 0" in found.observed) == (outcome, outcome is FAULT), found


def seeded(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(1)
    return classify(model, values, labels)


@pytest.mark.parametrize(
    ("layer", "loss", "outcome"),
    [
        pytest.param(nn.Dropout(0.5), classify, OK, id="new-numbers"),
        pytest.param(nn.Dropout(0.5), seeded, FAULT, id="the-seed-set-in-each-step"),
        pytest.param(nn.ReLU(), classify, DOES_NOT_APPLY, id="none"),
        pytest.param(nn.ReLU(), seeded, DOES_NOT_APPLY, id="a-seed-for-nothing"),
    ],
)
def test_each_step_draws_numbers_of_its_own(layer: nn.Module, loss: Loss, outcome: Outcome) -> None:
    found = asked("steps-draw-anew", perceptron(layer), loss, table())
    assert found.outcome is outcome, found


def divergence(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    wanted = functional.one_hot(labels, CLASSES).float()
    return functional.kl_div(functional.log_softmax(model(values), 1), wanted, reduction="batchmean")


def of_probabilities(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    wanted = functional.one_hot(labels, CLASSES).float()
    return functional.kl_div(functional.softmax(model(values), 1), wanted, reduction="batchmean")


def by_module(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = nn.NLLLoss()(functional.softmax(model(values), 1), labels)
    return loss


def likelihood(model: nn.Module, values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.nll_loss(functional.log_softmax(model(values), 1), labels)


@pytest.mark.parametrize(
    ("loss", "is_fault"),
    [
        pytest.param(divergence, False, id="divergence"),
        pytest.param(likelihood, False, id="likelihood"),
        pytest.param(of_probabilities, True, id="divergence-of-probabilities"),
        pytest.param(by_module, True, id="likelihood-of-probabilities"),
    ],
)
def test_losses_get_the_logarithms_that_they_expect(loss: Loss, is_fault: bool) -> None:
    found = asked("scores-meet-labels", perceptron(nn.ReLU()), loss, table())
    assert (found.outcome is FAULT, "log-probabilities" in found.what) == (is_fault, is_fault), found
