"""The losses of a run's evaluations beside those of its training, for rules about validation data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.situation.constants import (
    FIRST,
    HARDLY_ANYTHING,
    MAD_TO_DEVIATION,
    MANY_EVALUATIONS,
    NEAR_GUESSING,
    NEWEST,
)
from trackside.situation.losses.guessing import Guess
from trackside.situation.losses.losses import finite
from trackside.situation.medians import median
from trackside.trial.rests import Rests
from trackside.trial.window import Column

Losses = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluations:
    """All evaluations of a run, oldest first: n of them.

    steps           step of the last batch of each, shape (n,)
    means           mean loss of each, shape (n,)
    training        median of the training losses since the evaluation before, shape (n,); where the steps right before
                    it were at rest, of those right after it, and of as many before
    training_means  mean of the same training losses, shape (n,)
    batches         the losses of each
    first           the training's first loss
    """

    steps: NDArray[np.int64]
    means: Losses
    training: Losses
    training_means: Losses
    batches: tuple[Losses, ...]
    first: float

    def unshared(self, now: float) -> float:
        """Return the share of the training's gain that a validation loss of `now` lacks; 0 without a gain."""
        gained = self.first - median(self.training[-NEWEST:])
        return (now - self.first + gained) / gained if gained > 0 else 0.0


def by_evaluation(evaluated: Column, trained: Column, rests: Rests) -> Evaluations | None:
    """Return the evaluations, one for all losses between two training steps; None without any.

    The training loss of an evaluation before the first training step is the first one after it. An evaluation that ends
    a rest is left out until the training goes on: what the training had come to is not known before.

    Args:
        evaluated: The validation losses.
        trained: The training losses of the same worker.
        rests: The rests of this worker.
    """
    steps, losses = finite(evaluated)
    trained_steps, trained_losses = finite(trained)
    if not steps.size or not trained_steps.size:
        return None
    starts = starts_of_evaluations(steps, trained_steps, rests)
    beside = _training_beside(steps[starts], trained_steps, trained_losses, rests)
    if not beside:
        return None
    if len(beside) < len(starts):
        end = starts[len(beside)]
        steps, losses, starts = steps[:end], losses[:end], starts[: len(beside)]
    batches = tuple(np.split(losses, starts[1:]))
    return Evaluations(
        steps=steps[np.append(starts[1:], len(steps)) - 1],
        means=np.array([batch.mean() for batch in batches]),
        training=np.array([median(losses) for losses in beside]),
        training_means=np.array([float(losses.mean()) for losses in beside]),
        batches=batches,
        first=median(trained_losses[:FIRST]),
    )


def _training_beside(
    evaluated: NDArray[np.int64], trained: NDArray[np.int64], losses: Losses, rests: Rests
) -> list[Losses]:
    """Return the training losses beside each evaluation; those of the newest are left out if they are not known yet."""
    bursts, found = rests.before(trained), list[Losses]()
    ends = np.searchsorted(trained, evaluated)
    for first, a, b, c in zip(evaluated, (0, *ends[:-1]), ends, (*ends[1:], len(trained)), strict=True):
        if b == len(trained) and len(rests.after) and first > trained[-1] + 1:
            break  # the training has not gone on yet
        is_after_rest = 0 < b < len(trained) and bursts[b] > bursts[b - 1] and first > trained[b - 1] + 1
        after = losses[b:c][bursts[b:c] == bursts[b]] if is_after_rest else losses[:0]
        before = losses[a:b] if a < b else losses[max(0, b - 1) : max(1, b)]
        found.append(np.concatenate([before[-len(after) :], after]))
    return found


def starts_of_evaluations(evaluated: NDArray[np.int64], trained: NDArray[np.int64], rests: Rests) -> NDArray[np.intp]:
    """Return the places at which an evaluation begins: of steps with a training step before, watched or at rest.

    Args:
        evaluated: Steps of validation losses, ascending, shape (n,).
        trained: Steps of training losses, ascending.
        rests: The rests of the worker.
    """
    return np.flatnonzero(np.diff(np.searchsorted(trained, evaluated) + rests.before(evaluated), prepend=-1))


def training_of(evaluated: Column, trained: Sequence[Column]) -> Column | None:
    """Return the training losses beside these validation losses: of the same name, or the worker's only ones."""
    own = [column for column in trained if column.worker == evaluated.worker]
    same = [column for column in own if column.tensor == evaluated.tensor]
    return same[0] if same else own[0] if len(own) == 1 else None


def error_of_rise(before: Losses, after: Losses) -> float:
    """Return the standard error of the difference between two evaluations' means; 0 if each is a single batch.

    Two evaluations with equally many batches are compared batch by batch: a hard batch is hard in both.
    """
    if len(before) == len(after) > 1:
        return float(np.std(after - before, ddof=1)) / math.sqrt(len(after))
    return math.hypot(*[float(np.std(b, ddof=1)) / math.sqrt(len(b)) if len(b) > 1 else 0.0 for b in (before, after)])


def noise_of(evaluated: Losses) -> float:
    """Return the median difference of evaluations from the middle of their neighbours; 0 for fewer than five.

    `evaluated`: shape (n,). For normal noise this is the standard deviation: a second difference has sqrt(6) times
    that.
    """
    if len(evaluated) < 5:
        return 0.0
    return MAD_TO_DEVIATION * median(np.abs(np.diff(evaluated, n=2))) / math.sqrt(6)


def has_stopped_falling(seen: Evaluations) -> bool:
    """Return True with many evaluations, and the best before the last third, or that third no better than the first."""
    count, third = len(seen.means), len(seen.means) // 3
    if count < MANY_EVALUATIONS:
        return False
    is_best_earlier = int(np.argmin(seen.means)) < count - third
    return is_best_earlier or median(seen.means[-third:]) >= median(seen.means[:third])


def was_never_better(seen: Evaluations, guess: Guess) -> bool:
    """Return True if no evaluation of many beat guessing, and the last third has no new best.

    With numbers as labels, the rows to validate on may be easier than others, or harder: then the guess of their own
    labels counts, or none may be better than the first, either.
    """
    return has_stopped_falling(seen) and is_no_better(seen, guess)


def is_no_better(seen: Evaluations, guess: Guess) -> bool:
    """Return True if no evaluation so far beat guessing."""
    lowest = float(seen.means.min())
    if guess.is_of_classes:
        return lowest > (1 - HARDLY_ANYTHING) * guess.loss
    if guess.evaluated is not None and lowest > (1 - HARDLY_ANYTHING) * guess.evaluated:
        return True
    return lowest > max((1 - HARDLY_ANYTHING) * float(seen.means[0]), NEAR_GUESSING * guess.loss)
