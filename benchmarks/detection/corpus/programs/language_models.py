"""Language models of Python's documentation with the settings of a GPT: AdamW with decay, a warm-up, tied weights."""

from dataclasses import replace
from functools import partial

from torch import optim

from benchmarks.detection.corpus import data
from benchmarks.detection.corpus.data import CHARACTERS
from benchmarks.detection.corpus.models import Places, Transformer
from benchmarks.detection.corpus.optimizers import warmup_cosine
from benchmarks.detection.corpus.program import TUNE
from benchmarks.detection.corpus.registry import Edit, plant, recipe
from benchmarks.detection.corpus.supervised import Recipe


@recipe(
    TUNE,
    data="text",
    model="GPT of 2 layers over characters, tied weights",
    at_least=0.28,
    chance=0.17,
    odd="a warm-up over a third of the run",
)
def characters_gpt() -> Recipe:
    """The next character, by a small GPT."""
    return Recipe(
        data=partial(data.characters, length=32),
        model=lambda: Transformer(CHARACTERS, length=32, width=48, tied=True, dropout=0.1),
        optimizer=partial(optim.AdamW, betas=(0.9, 0.99), weight_decay=0.1),
        rate=5e-3,
        epochs=7,
        schedule=warmup_cosine(80, 0.1),
        clip_norm=1.0,
        criterion=Places(),
    )


def _unclipped(rate: float) -> Edit:
    return lambda found: replace(found, rate=rate, clip_norm=None)


plant(
    "learning-rate-too-high",
    "characters-gpt",
    _unclipped(1.0),
    "The rate is 1, and gradients are not clipped: the loss comes back from far above to that of guessing.",
)
