"""Places of a loss's targets in the tokens that a causal model reads, whoever shifts them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from trackside.frameworks.pytorch.losses.target_places import target_places, tokens_of

ROWS, WIDTH, WORDS, NONE = 4, 9, 50, -100
Loss = Callable[[Tensor, Tensor], Tensor]


def words(seed: int) -> Tensor:
    return torch.randint(0, WORDS, (ROWS, WIDTH), generator=torch.Generator().manual_seed(seed))


def shifted(labels: Tensor, places: int = 1) -> Tensor:
    return torch.cat([labels[:, places:], torch.full((len(labels), places), NONE)], 1)


def entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), labels.flatten())


def inside(scores: Tensor, labels: Tensor) -> Tensor:
    """As a model of transformers shifts its labels."""
    return entropy(scores.float(), shifted(labels).contiguous())


def picked(scores: Tensor, tokens: Tensor) -> Tensor:
    """As a loss of log-probabilities, with a mask."""
    logs = scores[:, :-1].log_softmax(-1).gather(2, tokens[:, 1:, None])
    return -(logs[..., 0] * (tokens[:, 1:] > 3)).sum() / 7


def several_heads(scores: Tensor, tokens: Tensor) -> Tensor:
    """As a model that predicts the next token and the one after."""
    return inside(scores, tokens) + 0.3 * entropy(scores, shifted(tokens, 2))


PLACES: dict[str, tuple[Loss, float | None]] = {
    "the model shifts": (inside, 1),
    "the loop shifts": (lambda scores, tokens: entropy(scores, shifted(tokens)), 1),
    "the last place is left out": (lambda scores, tokens: entropy(scores[:, :-1], tokens[:, 1:]), 1),
    "classes in the middle": (lambda s, t: functional.cross_entropy(s[:, :-1].transpose(1, 2), t[:, 1:]), 1),
    "prompts without labels": (lambda s, t: inside(s, torch.cat([torch.full((ROWS, 3), NONE), t[:, 3:]], 1)), 1),
    "accumulated": (lambda scores, tokens: inside(scores, tokens) / 4, 1),
    "log-probabilities": (picked, 1),
    "two heads": (several_heads, 1),
    "both shift": (lambda scores, tokens: inside(scores, shifted(tokens)), 2),
    "both shift, the last left out": (lambda s, t: entropy(s[:, :-1], shifted(t)[:, 1:]), 2),
    "nobody shifts": (entropy, 0),
    "targets of their own": (lambda scores, tokens: entropy(scores, words(7)), -1),
    "too few targets": (lambda s, t: entropy(s, torch.cat([torch.full((ROWS, 8), NONE), t[:, 8:]], 1)), -1),
    "picked rows": (lambda scores, tokens: entropy(scores[:, :2], tokens[:, :2]), None),
    "no targets": (lambda scores, tokens: scores.square().mean(), None),
    "errors of numbers": (lambda s, t: functional.mse_loss(s[..., 0], t.float()), None),
}


def test_places_of_targets() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 8), nn.Linear(8, WORDS))
    ahead, tokens = words(1), words(2)
    found = {}
    for name, (loss, _) in PLACES.items():
        place = target_places(loss(model(tokens), tokens).grad_fn, [tokens, ahead])
        found[name] = None if place is None else float(place)
    assert found == {name: place for name, (_, place) in PLACES.items()}


def test_rows_of_one_word_are_the_next_tokens() -> None:
    model = nn.Sequential(nn.Embedding(WORDS, 8), nn.Linear(8, WORDS))
    tokens = torch.full((ROWS, WIDTH), 5)
    place = target_places(inside(model(tokens), tokens).grad_fn, [tokens])
    assert place is not None
    assert float(place) == -1


class Tagger(nn.Module):
    """A model with tables for words and for places."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.out = nn.Embedding(WORDS, 8), nn.Embedding(WIDTH, 8), nn.Linear(8, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.out(torch.tanh(self.words(tokens) + self.places(torch.arange(WIDTH))))
        return found


def test_tokens_that_tables_were_asked_for() -> None:
    torch.manual_seed(0)
    model, tokens = Tagger(), words(2)
    for loss, place in (PLACES["both shift"], PLACES["the loop shifts"], PLACES["targets of their own"]):
        end = loss(model(tokens), tokens).grad_fn
        (found,) = tokens_of(end)
        assert torch.equal(found, tokens)
        at = target_places(end, [found])
        assert at is not None
        assert float(at) == place
    assert tokens_of(model(tokens).square().mean().grad_fn) == []
    flat = nn.Linear(WIDTH, WORDS)(tokens.float())
    assert tokens_of(functional.cross_entropy(flat, tokens[:, 0]).grad_fn) == []
