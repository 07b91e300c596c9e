"""Recurrent networks, convolutions over time and transformers on sequences that are computed."""

import torch
from torch import nn

from benchmarks.detection.corpus import data
from benchmarks.detection.corpus.models import Places, Recurrent, Transformer, mlp
from benchmarks.detection.corpus.optimizers import adam, adamw, cosine, momentum, warmup_cosine
from benchmarks.detection.corpus.program import REPORT, TUNE
from benchmarks.detection.corpus.registry import recipe
from benchmarks.detection.corpus.supervised import Recipe, regression


@recipe(TUNE, "waves", "RNN of 24", at_least=0.7)
def waves_rnn() -> Recipe:
    """A plain recurrent network continues a wave."""
    return regression(data.waves, lambda: Recurrent(nn.RNN, 1, 24, 1), adam, 3e-3, 12, clip_norm=1.0)


@recipe(REPORT, "waves", "LSTM of 24", at_least=0.7)
def waves_lstm() -> Recipe:
    """An LSTM continues a wave."""
    return regression(data.waves, lambda: Recurrent(nn.LSTM, 1, 24, 1), adam, 6e-3, 12)


@recipe(REPORT, "waves", "GRU of 32, SGD", at_least=0.6)
def waves_gru() -> Recipe:
    """A GRU continues a wave, with momentum and clipping."""
    return regression(data.waves, lambda: Recurrent(nn.GRU, 1, 32, 1), momentum, 0.05, 14, clip_norm=5.0)


def _over_time() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(1),
        nn.Unflatten(1, (1, 24)),
        nn.Conv1d(1, 16, 5),
        nn.ReLU(),
        nn.Conv1d(16, 16, 5, dilation=2),
        nn.ReLU(),
        nn.Flatten(1),
        nn.Linear(16 * 12, 1),
    )


@recipe(TUNE, "waves", "convolutions over time", at_least=0.7)
def waves_convolutions() -> Recipe:
    """Dilated convolutions continue a wave."""
    return regression(data.waves, _over_time, adam, 3e-3, 11)


@recipe(REPORT, "adding", "GRU of 24", at_least=0.8, odd="the loss stays where it is for a while before it falls")
def adding_gru() -> Recipe:
    """The adding problem."""
    return regression(data.adding, lambda: Recurrent(nn.GRU, 2, 24, 1), adam, 0.01, 16, clip_norm=1.0)


@recipe(TUNE, "brackets", "GRU of 20", at_least=0.9, chance=0.5)
def brackets_gru() -> Recipe:
    """Are the brackets balanced?"""
    return Recipe(data.brackets, lambda: Recurrent(nn.GRU, 8, 20, 2, symbols=2), adam, 0.01, 14)


@recipe(REPORT, "brackets", "LSTM of 24, both ways, two layers", at_least=0.9, chance=0.5)
def brackets_lstm() -> Recipe:
    """The same with two layers that read both ways."""
    return Recipe(
        data=data.brackets,
        model=lambda: Recurrent(nn.LSTM, 8, 24, 2, symbols=2, layers=2, both_ways=True),
        optimizer=adamw,
        rate=8e-3,
        epochs=13,
        clip_norm=1.0,
    )


def _parity(seed: int) -> data.Data:
    """Is the number of ones among the first three of eight bits odd?"""
    bits = torch.randint(2, (1600, 8), generator=torch.Generator().manual_seed(seed))
    return data.parts(bits * 2.0 - 1, bits[:, :3].sum(1) % 2, seed)


@recipe(
    REPORT,
    data="parity",
    model="MLP 8-64-2",
    at_least=0.9,
    chance=0.5,
    odd="a long plateau at chance, then a sudden fall: parity cannot be learned bit by bit",
)
def parity_plateau() -> Recipe:
    """Parity of three bits among eight."""
    return Recipe(_parity, lambda: mlp(8, 64, 2), momentum, 0.03, 18)


@recipe(REPORT, "reversal", "transformer of 2 layers", at_least=0.9, chance=0.13, odd="warm-up")
def reversal_transformer() -> Recipe:
    """A transformer says sequences backwards."""
    return Recipe(
        data=data.reversal,
        model=lambda: Transformer(8, length=6, causal=False),
        optimizer=adam,
        rate=5e-3,
        epochs=13,
        schedule=warmup_cosine(50),
        criterion=Places(),
    )


@recipe(TUNE, "reversal", "transformer of 1 layer, norms after", at_least=0.9, chance=0.13)
def reversal_norms_after() -> Recipe:
    """One layer, normalised after what is added, as the first transformers were."""
    return Recipe(
        data=data.reversal,
        model=lambda: Transformer(8, length=6, layers=1, causal=False, norm_first=False),
        optimizer=adam,
        rate=6e-3,
        epochs=12,
        schedule=warmup_cosine(30),
        clip_norm=1.0,
        criterion=Places(),
    )


@recipe(REPORT, "tagging", "GRU of 32, both ways", at_least=0.8, chance=0.6, odd="padding that counts nowhere")
def tagging_padded() -> Recipe:
    """Tags for words, with padding that the loss passes over."""
    return Recipe(
        data=data.tagging,
        model=lambda: Recurrent(nn.GRU, 16, 48, 2, symbols=13, every_place=True),
        optimizer=adam,
        rate=0.01,
        epochs=14,
        schedule=cosine,
        criterion=Places(ignore_index=-100),
    )


@recipe(REPORT, "digits", "GRU of 48 over rows", at_least=0.85, chance=0.1)
def rows_gru() -> Recipe:
    """Digits read row by row."""
    return Recipe(data.digit_rows, lambda: Recurrent(nn.GRU, 8, 48, 10), adam, 5e-3, 9)


@recipe(TUNE, "digits", "RNN of 40 over rows", at_least=0.8, chance=0.1)
def rows_rnn() -> Recipe:
    """The same with a plain recurrent network and SGD."""
    return Recipe(data.digit_rows, lambda: Recurrent(nn.RNN, 8, 40, 10), momentum, 0.03, 11, clip_norm=2.0)


@recipe(REPORT, "digits", "attention over rows", at_least=0.85, chance=0.1)
def rows_attention() -> Recipe:
    """Digits as eight rows that attend to each other."""
    return Recipe(
        data=data.digit_rows,
        model=lambda: nn.Sequential(
            nn.Linear(8, 32),
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True),
            nn.Flatten(1),
            nn.Linear(256, 10),
        ),
        optimizer=adam,
        rate=2e-3,
        epochs=9,
    )
