"""Evaluations that lack what a training gained, or lose it again. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trackside.situation.constants import (
    A_HANDFUL,
    ALL_BUT_A_FEW,
    HARDLY_ANY,
    HARDLY_ANYTHING,
    HARDLY_BELOW_GUESSING,
    JUST_ABOVE_GUESSING,
    LEARNS,
    LITTLE_IS_LEFT,
    LONG_SHARE,
    MANY_EVALUATIONS,
    NEWEST,
    SEVERAL,
    TENFOLD,
    THIRD_IS_LEFT,
    THREEFOLD,
)
from trackside.situation.losses.evaluations import Evaluations, Losses, error_of_rise, is_no_better, noise_of
from trackside.situation.losses.guessing import Guess, labels_differ
from trackside.situation.medians import median
from trackside.trial.window import Column, Window


def is_of_other_labels(window: Window, seen: Evaluations, trained: Column) -> bool:
    """Return True if each evaluation stands far above the training at first, and has labels of another size.

    Args:
        window: The run up to the judged step.
        seen: The evaluations, and the training beside them.
        trained: The training loss.
    """
    if len(seen.means) < SEVERAL or not float(seen.means.min()) > TENFOLD * seen.first > 0:
        return False
    return bool(labels_differ(window, trained.tensor, trained.worker))


def shared_of(seen: Evaluations, *, most: float, guess: Guess | None) -> float | None:
    """Return the share of the training's gain that the validation losses have, if less than `most`; else None.

    None too with too few losses to judge, or a negative loss. `guess` is the best constant answer, None if unknown.
    """
    evaluated, trained, first = seen.means, seen.training, seen.first
    if len(evaluated) < MANY_EVALUATIONS or min(trained.min(), evaluated.min()) < 0:
        return None
    tenth = max(NEWEST, len(evaluated) // 10)
    now, validated = median(trained[-tenth:]), median(evaluated[-tenth:])
    gain, was_seen = first - now, first - validated
    if gain <= 0 or first <= 0 or now > float(trained.min()) + LITTLE_IS_LEFT * first:
        return None
    share = was_seen / gain
    since = float(trained[0]) - now
    if since > LEARNS * gain and float(evaluated[0]) - validated >= most * since:
        return None
    has_nothing = _has_nothing(seen, guess) if guess is not None else _rises(evaluated, trained)
    has_little = now < THIRD_IS_LEFT * first and share < most and (share < most / 2 or not _still_gains(evaluated))
    return min(share, most * (1 - HARDLY_ANYTHING)) if has_nothing or has_little else None


def _has_nothing(seen: Evaluations, guess: Guess) -> bool:
    """Return True if the training loss is below that of guessing, and the validation loss never was by a share of that.

    Means, not medians, since the loss of guessing is a mean.
    """
    learned = guess.loss - float(seen.training_means[-NEWEST:].mean())
    if not learned > (1 - HARDLY_BELOW_GUESSING) * guess.loss:
        return False
    if guess.is_of_classes:
        return guess.loss - float(seen.means.min()) < HARDLY_ANY * learned
    return is_no_better(seen, guess)


def _rises(evaluated: Losses, trained: Losses) -> bool:
    """Return True if validation losses rose from the first ones by more than noise, while training losses fell."""
    tenth = max(NEWEST, len(evaluated) // 10)
    first, newest = float(evaluated[:tenth].max()), float(evaluated[-tenth:].min())
    has_fallen = median(trained[-tenth:]) < ALL_BUT_A_FEW * float(trained[0])
    return has_fallen and newest > first + THREEFOLD * noise_of(evaluated) and newest > (1 + HARDLY_ANYTHING) * first


def _still_gains(evaluated: Losses) -> bool:
    """Return True if the best evaluation is in the newest tenth, or this tenth is 2 % below the evaluations before."""
    tenth = max(NEWEST, len(evaluated) // 10)
    before = median(evaluated[-3 * tenth : -tenth])
    is_newest = int(np.argmin(evaluated)) >= len(evaluated) - tenth
    return is_newest or median(evaluated[-tenth:]) < (1 - HARDLY_ANYTHING) * before


@dataclass(frozen=True)
class Lost:
    """The part of the gain that was lost again.

    share   of the gain
    best    index of the evaluation with the lowest loss
    lowest  its loss
    now     the present loss
    """

    share: float
    best: int
    lowest: float
    now: float


def lost_again(evaluated: Losses, trained: Losses, *, patience: int, batches: Sequence[Losses] = ()) -> Lost | None:
    """Return the part of the gain that the validation losses have lost again; None without a certain loss.

    `evaluated` and `trained`: one validation and one training loss per evaluation, oldest first, shape (n,). `batches`:
    the losses of which each of `evaluated` is the mean.
    """
    if len(evaluated) < max(A_HANDFUL, patience + 1):
        return None
    best = int(np.argmin(evaluated))
    long = max(patience, round(LONG_SHARE * len(evaluated)))
    lowest = float(evaluated[best])
    if best >= len(evaluated) - long:
        return None
    lowest_since = len(evaluated) - long + int(np.argmin(evaluated[-long:]))
    now = float(evaluated[lowest_since])
    gain = max(float(evaluated[0]) - lowest, float(trained[0] - trained[-1]))
    error = error_of_rise(batches[best], batches[lowest_since]) if batches else 0.0
    still_falls = float(trained[best] - median(trained[-patience:])) > HARDLY_ANYTHING * gain
    if not gain > 0 or not still_falls or not now - lowest > max(2 * error, THREEFOLD * noise_of(evaluated[best:])):
        return None
    return Lost((now - lowest) / gain, best, lowest, now)


def is_near_guessing(guessing: float, *, lowest: float, now: float) -> bool:
    """Return True for a validation loss that was never better than guessing, or hardly ever and is worse now."""
    is_hardly_better = lowest > HARDLY_BELOW_GUESSING * guessing and now > JUST_ABOVE_GUESSING * guessing
    return is_hardly_better or lowest > (1 - HARDLY_ANYTHING) * guessing


def has_clearly_lost(lost: Lost, threshold: float) -> bool:
    """Return False if the loss rose by little in relation to its size. A loss of zero or below has no such relation."""
    return lost.lowest <= 0 or lost.now > (1 + threshold) * lost.lowest
