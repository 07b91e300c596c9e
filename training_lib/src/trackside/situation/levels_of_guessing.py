"""The losses of a training beside those of the best constant answer. Pure functions of a window."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.observations import ROUNDS_BEFORE
from trackside.situation.constants import (
    A_TENTH_MORE,
    AS_GUESSING,
    END_OF_A_SHORT_RUN,
    ENOUGH_STEPS,
    LONG_SHARE,
    LOSSES_OF_TWO_WINDOWS,
    MANY_EVALUATIONS,
    NEWEST_LOSSES,
    NOT_MOVED,
)
from trackside.situation.losses.evaluations import (
    Evaluations,
    by_evaluation,
    has_stopped_falling,
    training_of,
    was_never_better,
)
from trackside.situation.losses.guessing import best_guess
from trackside.situation.losses.losses import whole_losses
from trackside.situation.measurements import Evidence
from trackside.trial.window import Column, Window


def judged_losses(window: Window) -> tuple[Column, ...]:
    """Return the training losses; of trees without any the validation losses."""
    trained = whole_losses(window)
    if trained or window.facts is None or not window.facts.is_of_trees:
        return trained
    return tuple(window.columns("losses", "mean", mode="EVAL"))


def goes_on(window: Window) -> bool:
    """Return True if the model had learned before this training."""
    return window.facts is not None and ROUNDS_BEFORE.of(window.facts.program) > 0


def above_guessing(window: Window, columns: Sequence[Column]) -> float | None:
    """Return the loss of guessing classes, if one of these losses is above it now; else None."""
    for column in columns:
        guess = best_guess(window, column.tensor, worker=column.worker)
        newest = column.values[-NEWEST_LOSSES:]
        if guess is not None and guess.is_of_classes and newest.min() > A_TENTH_MORE * guess.loss:
            return guess.loss
    return None


def evaluations_of(window: Window, trained: Column) -> tuple[Evaluations, ...]:
    """Return the evaluations beside a training loss, by validation loss."""
    evaluated = window.columns("losses", "mean", mode="EVAL")
    rests = window.rests(trained.worker)
    found = [by_evaluation(c, trained, rests) for c in evaluated if training_of(c, (trained,)) is not None]
    return tuple([seen for seen in found if seen is not None])


def never_exceeded_guessing(window: Window, trained: Column) -> float | None:
    """Return the loss of guessing, if the validation loss was never better; else None."""
    for seen in evaluations_of(window, trained):
        if not has_stopped_falling(seen):
            continue
        guess = best_guess(window, trained.tensor, worker=trained.worker)
        if guess is not None and was_never_better(seen, guess):
            return guess.loss
    return None


def level_of_guessing(window: Window, trained: Column) -> float | None:
    """Return the loss of guessing classes, by the saved labels: infinite if an evaluation was better; or None."""
    guess = best_guess(window, trained.tensor, worker=trained.worker)
    if guess is None or not guess.is_of_classes:
        return None
    was_better = any(seen.means.min() < AS_GUESSING * guess.loss for seen in evaluations_of(window, trained))
    return math.inf if was_better else guess.loss


def warmed_up_at(window: Window) -> int:
    """Return the first step at which every learning rate had reached half of its largest value so far."""
    first = 0
    for column in Evidence(window).learning_rates:
        strong = np.flatnonzero(column.values >= column.values.max() / 2)
        first = max(first, int(column.steps[strong[0]]) if strong.size else 0)
    return first


def steps_needed(window: Window, start_step: int) -> int:
    """Return the number of steps from which on a loss can be stuck: fewer in a run that has ended.

    Args:
        window: The run up to the judged step.
        start_step: The number of steps in a run that goes on.
    """
    if not window.is_last:
        return start_step
    if window.facts is not None and window.facts.is_of_trees:
        return min(LOSSES_OF_TWO_WINDOWS, start_step)
    way = Evidence(window).way
    if way is not None and way[0] < NOT_MOVED and way[1] >= ENOUGH_STEPS:
        return min(ENOUGH_STEPS, start_step)
    seen = [each for column in whole_losses(window) for each in evaluations_of(window, column)]
    share = LONG_SHARE if any(len(each.means) >= MANY_EVALUATIONS for each in seen) else END_OF_A_SHORT_RUN
    return math.ceil(share * start_step)


def finite_losses(
    window: Window, column: Column, *, through: int | None, num_steps: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Return steps and values of the finite losses since the warm-up, and the number of losses in a window.

    Args:
        window: The run up to the judged step.
        column: The losses.
        through: The last step; None for the judged one.
        num_steps: The steps with the losses of the longest window.
    """
    step = window.step if through is None else through
    kept = np.isfinite(column.values) & (column.steps >= warmed_up_at(window)) & (column.steps <= step)
    steps, losses = column.steps[kept], column.values[kept]
    most = int(np.count_nonzero(steps > step - num_steps))
    return steps, losses, max(NEWEST_LOSSES, min(most, len(losses) // 4))
