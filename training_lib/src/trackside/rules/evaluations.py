"""The losses of a run's evaluations beside those of its training: what rules about validation data compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.rules.diagnosis import finite
from trackside.rules.guessing import Guess
from trackside.trial.window import Column

NEWEST = 3  # evaluations at least that stand for now: one alone may be an accident
MANY = 8  # evaluations that say that the validation loss never did something
_FIRST = 3  # losses that stand for the start
_BETTER = 0.02  # share of a loss

Losses = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluations:
    """All evaluations of a run, oldest first: n of them.

    `steps`, `means`, `training` and `training_means` are of shape (n,): the step of its last batch, the mean loss, the
    median and the mean of the training losses since the one before. `batches` holds the losses of each. `first` is the
    training's first loss.
    """

    steps: NDArray[np.int64]
    means: Losses
    training: Losses
    training_means: Losses
    batches: tuple[Losses, ...]
    first: float

    def unshared(self, now: float) -> float:
        """The share of what the training gained that a validation loss of `now` does not have; 0 if it gained none."""
        gained = self.first - float(np.median(self.training[-NEWEST:]))
        return (now - self.first + gained) / gained if gained > 0 else 0.0


def by_evaluation(evaluated: Column, trained: Column) -> Evaluations | None:
    """The evaluations: each is what was evaluated between two training steps; None if there is none.

    The training loss of one that came before the first training step is the first one after it.
    """
    steps, losses = finite(evaluated)
    trained_steps, trained_losses = finite(trained)
    if not steps.size or not trained_steps.size:
        return None
    before = np.searchsorted(trained_steps, steps)
    starts = np.flatnonzero(np.diff(before, prepend=-1))
    batches = tuple(np.split(losses, starts[1:]))
    ends = before[starts]
    since = [trained_losses[a:b] if b else trained_losses[:1] for a, b in zip((0, *ends[:-1]), ends, strict=True)]
    return Evaluations(
        steps=steps[np.append(starts[1:], len(steps)) - 1],
        means=np.array([batch.mean() for batch in batches]),
        training=np.array([float(np.median(losses)) for losses in since]),
        training_means=np.array([float(losses.mean()) for losses in since]),
        batches=batches,
        first=float(np.median(trained_losses[:_FIRST])),
    )


def training_of(evaluated: Column, trained: Sequence[Column]) -> Column | None:
    """The training losses beside these validation losses: of the same name, or the worker's only ones."""
    own = [column for column in trained if column.worker == evaluated.worker]
    same = [column for column in own if column.tensor == evaluated.tensor]
    return same[0] if same else own[0] if len(own) == 1 else None


def error_of_rise(before: Losses, after: Losses) -> float:
    """The standard error of the difference between two evaluations' means; 0 where each is a single batch.

    Of the differences batch by batch where they are as many: what makes a batch hard is in both.
    """
    if len(before) == len(after) > 1:
        return float(np.std(after - before, ddof=1)) / math.sqrt(len(after))
    return math.hypot(*[float(np.std(b, ddof=1)) / math.sqrt(len(b)) if len(b) > 1 else 0.0 for b in (before, after)])


def noise_of(evaluated: Losses) -> float:
    """By how much evaluations differ from what lies between their neighbours (median); 0 for fewer than five.

    `evaluated`: shape (n,). The standard deviation, were they normal: a second difference has sqrt(6) times that.
    """
    if len(evaluated) < 5:
        return 0.0
    return 1.4826 * float(np.median(np.abs(np.diff(evaluated, n=2)))) / math.sqrt(6)


def has_stopped_falling(seen: Evaluations) -> bool:
    """True where there are many evaluations, and the best is none of the last third."""
    count = len(seen.means)
    return count >= MANY and int(np.argmin(seen.means)) < count - count // 3


def was_never_better(seen: Evaluations, guess: Guess) -> bool:
    """True where many evaluations were never better than guessing, and the last third of them no better than before.

    Of numbers, a few rows to validate on may be easier than others: there none may be better than the first, either.
    """
    means = seen.means
    if not has_stopped_falling(seen):
        return False
    if guess.is_of_classes:
        return float(means.min()) > (1 - _BETTER) * guess.loss
    return float(means.min()) > max((1 - _BETTER) * float(means[0]), 0.9 * guess.loss)
