"""The programs into which mistakes are planted: the project's own corpus, and other people's trainers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from benchmarks.detection.corpus import catalogue as own
from benchmarks.detection.corpus.program import SEEDS
from benchmarks.detection.corpus.program import Program as OwnProgram
from benchmarks.mutants.operator import REPORT, TUNE
from benchmarks.wild import program as wild
from benchmarks.wild.program import Program as WildProgram

OWN = "own corpus"

# Small and quick ones, of each kind of model, loss and loop. `--all` takes every program of both corpora.
CHOSEN = frozenset(
    {
        # own corpus, tune: a table, a deep one with dropout and norms, regression, images, text
        "wine-mlp", "wine-batch-norm", "friedman-silu", "cnn-dropout", "characters-gru",
        # own corpus, report
        "cancer-mlp", "wine-batchnorm", "friedman-mlp", "cnn-plain", "topics-mlp",
        # other people's trainers; their libraries decide on the half
        "torch-averaged-weights", "torch-transformer", "lightning-classifier", "ignite-supervised", "skorch-classifier",
        "skorch-regressor", "accelerate-digits", "geometric-gcn", "pycox-deep-hit", "tabnet-classifier",
        "widedeep-mlp", "darts-tide", "timm-vit", "bert-hidden-32", "gpt2-hidden-32", "monai-unet",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A right training.

    library  the library with the trainer, or `own corpus`
    half     the half of its corpus that it belongs to
    program  the program in its own corpus
    """

    name: str
    library: str
    half: str
    program: OwnProgram | WildProgram

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds of this program, in order: those of the own corpus belong to one half."""
        return SEEDS[self.half] if isinstance(self.program, OwnProgram) else range(100)


@cache
def all_subjects() -> tuple[Subject, ...]:
    """Return every program of both corpora: the own ones first, then the others by family."""
    ours = [Subject(each.name, OWN, each.split, each) for each in own.all_programs().values()]
    theirs = [Subject(each.name, each.library, each.split, each) for each in wild.all_programs()]
    assert {each.half for each in (*ours, *theirs)} == {TUNE, REPORT}
    return (*ours, *theirs)
