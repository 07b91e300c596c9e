"""Models of Python's own documentation, by characters and by words."""

from functools import partial

import torch
from torch import Tensor, nn, optim

from benchmarks.detection.corpus import data
from benchmarks.detection.corpus.data import CHARACTERS, WORDS
from benchmarks.detection.corpus.models import BagOfWords, Places, Recurrent, Transformer
from benchmarks.detection.corpus.optimizers import adam, adamw, sgd, warmup_cosine
from benchmarks.detection.corpus.program import REPORT, TUNE
from benchmarks.detection.corpus.registry import recipe
from benchmarks.detection.corpus.supervised import Recipe


@recipe(REPORT, "text", "LSTM of 64 over characters", at_least=0.3, chance=0.17)
def characters_lstm() -> Recipe:
    """The next character, by an LSTM."""
    return Recipe(
        data=data.characters,
        model=lambda: Recurrent(nn.LSTM, 24, 64, CHARACTERS, symbols=CHARACTERS, every_place=True),
        optimizer=adam,
        rate=8e-3,
        epochs=7,
        clip_norm=1.0,
        criterion=Places(),
    )


@recipe(
    REPORT,
    data="text",
    model="transformer of 2 layers over characters, tied weights",
    at_least=0.28,
    chance=0.17,
    odd="tied weights, warm-up",
)
def characters_transformer() -> Recipe:
    """The next character, by a transformer whose output shares the embedding."""
    return Recipe(
        data=partial(data.characters, length=24),
        model=lambda: Transformer(CHARACTERS, length=24, tied=True, dropout=0.1),
        optimizer=adamw,
        rate=5e-3,
        epochs=7,
        schedule=warmup_cosine(40, 0.1),
        clip_norm=1.0,
        criterion=Places(),
    )


@recipe(TUNE, "text", "GRU of 48 over characters", at_least=0.28, chance=0.17)
def characters_gru() -> Recipe:
    """The next character, by a GRU."""
    return Recipe(
        data=partial(data.characters, length=20),
        model=lambda: Recurrent(nn.GRU, 16, 48, CHARACTERS, symbols=CHARACTERS, every_place=True),
        optimizer=adam,
        rate=8e-3,
        epochs=7,
        criterion=Places(),
    )


@recipe(TUNE, "text", "bigram table", at_least=0.2, chance=0.17, odd="a rate of 20; rare rows hardly move")
def characters_bigram() -> Recipe:
    """The next character, told from this one alone."""
    return Recipe(data.characters, lambda: nn.Embedding(CHARACTERS, CHARACTERS), sgd, 20.0, 8, criterion=Places())


@recipe(TUNE, "text", "bag of words, sparse", at_least=0.5, chance=0.35, odd="sparse gradients")
def topics_sparse() -> Recipe:
    """Which topic is a passage about? Embeddings with sparse gradients and Adagrad."""
    return Recipe(data.topic_words, lambda: BagOfWords(WORDS, 24, 4, sparse=True), optim.Adagrad, 0.15, 8)


@recipe(REPORT, "text", "bag of words, SparseAdam", at_least=0.5, chance=0.35, odd="sparse gradients, SparseAdam")
def topics_sparse_adam() -> Recipe:
    """The same, every parameter sparse."""
    return Recipe(
        data.topic_words, lambda: nn.EmbeddingBag(WORDS, 4, mode="sum", sparse=True), optim.SparseAdam, 0.05, 8
    )


@recipe(REPORT, "text", "bag of words and MLP", at_least=0.5, chance=0.35)
def topics_mlp() -> Recipe:
    """Words' vectors, and a hidden layer."""
    return Recipe(data.topic_words, lambda: BagOfWords(WORDS, 32, 4, hidden=32), adam, 5e-3, 5)


@recipe(REPORT, "text", "GRU of 32 over words", at_least=0.45, chance=0.35)
def topics_gru() -> Recipe:
    """Words one after the other."""
    return Recipe(data.topic_words, lambda: Recurrent(nn.GRU, 24, 32, 4, symbols=WORDS), adam, 5e-3, 6, clip_norm=1.0)


def _with_gaps(step: int, symbols: Tensor, _targets: Tensor) -> tuple[Tensor, Tensor]:
    """One character in four is hidden; only those count."""
    hidden = torch.rand(symbols.shape) < 0.25
    hidden[:, 0] = True
    return torch.where(hidden, CHARACTERS, symbols), torch.where(hidden, symbols, -100)


def _masked(seed: int) -> data.Data:
    found = data.characters(seed, length=24)
    torch.manual_seed(seed)
    inputs = [_with_gaps(0, rows, rows) for rows, _ in (found.train, found.valid, found.test)]
    return data.Data(found.train, inputs[1], inputs[2])


@recipe(
    REPORT,
    data="text",
    model="GRU of 40 both ways, masked characters",
    at_least=0.2,
    chance=0.17,
    odd="only some places count in the loss",
)
def characters_masked() -> Recipe:
    """Hidden characters are told from those around them."""
    return Recipe(
        data=_masked,
        model=lambda: Recurrent(nn.GRU, 16, 40, CHARACTERS, symbols=CHARACTERS + 1, every_place=True, both_ways=True),
        optimizer=adam,
        rate=0.01,
        epochs=8,
        prepare=_with_gaps,
        criterion=Places(ignore_index=-100),
    )
