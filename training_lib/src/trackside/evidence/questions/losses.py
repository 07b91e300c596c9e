"""Questions about the losses, each answered present, absent or unknown. Pure functions."""

from __future__ import annotations

import numpy as np

from trackside.contracts.cause import Cause
from trackside.evidence.question import Answer, Known, question
from trackside.situation import breakage
from trackside.situation.constants import (
    A_TENTH_MORE,
    AT_GUESSING,
    COURSE_STEPS,
    FIRST,
    GAIN,
    HALF_AS_MUCH_AGAIN,
    LEARNS,
    NEWEST,
    NEWEST_LOSSES,
    SEVERAL,
    SHORT_STRETCH,
    SMALL_STEP,
    SUDDEN,
)
from trackside.situation.losses.evaluations import by_evaluation, is_no_better, training_of
from trackside.situation.losses.guessing import best_guess
from trackside.situation.losses.losses import (
    chance_level,
    finite,
    has_gained,
    learned_share,
    still_falls,
    training_losses,
)
from trackside.situation.medians import median, medians_of_rows


@question()
def loss_not_finite(known: Known) -> Answer:
    """The loss is not finite."""
    columns = training_losses(known.window)
    if not columns:
        return None
    return "the loss is not finite" if not all(np.isfinite(column.values[-1]) for column in columns) else False


@question(supports=(Cause.NON_FINITE_DATA,), proves=(Cause.NON_FINITE_DATA,))
def broke_suddenly(known: Known) -> Answer:
    """The loss became non-finite without growing before."""
    broken = [
        int(column.steps[np.argmax(~np.isfinite(column.values))])
        for column in training_losses(known.window)
        if not np.isfinite(column.values).all()
    ]
    if not broken:
        return False if training_losses(known.window) else None
    growth = breakage.growth_before(known.window, step=min(broken))
    if growth is None:
        return None
    return f"losses and gradients were as usual up to step {min(broken)}" if growth <= SUDDEN else False


@question(
    supports=(Cause.UNDEFINED_VALUE,),
    refutes=(Cause.UNDEFINED_VALUE,),
    explains=(Cause.NON_FINITE_DATA, Cause.LEARNING_RATE_TOO_HIGH, Cause.EXPLODING_GRADIENTS),
)
def undefined_value(known: Known) -> Answer:
    """A number broke out of the blue at a step with a finite loss, or with data that cannot hold NaN."""
    return breakage.undefined_value(known.window) or (False if training_losses(known.window) else None)


@question()
def loss_fell(known: Known) -> Answer:
    """The loss has fallen by more than its noise."""
    return has_gained(known.window, share=GAIN) if training_losses(known.window) else None


@question()
def loss_mostly_gone(known: Known) -> Answer:
    """More than half of the loss is gone."""
    share = learned_share(known.window)
    return None if share is None else share > 0.5


@question()
def loss_rose(known: Known) -> Answer:
    """The loss is higher than at first."""
    share = learned_share(known.window)
    if share is None:
        return None
    return "the loss is higher than at first" if share < -GAIN else False


@question()
def loss_falls(known: Known) -> Answer:
    """The loss falls in the newer half of the steps."""
    return still_falls(known.window) if training_losses(known.window) else None


@question()
def loss_of_guessing(known: Known) -> Answer:
    """The loss is that of a guess."""
    for column in training_losses(known.window):
        guess = best_guess(known.window, column.tensor, worker=column.worker)
        losses = finite(column)[1]
        if guess is None or len(losses) < NEWEST_LOSSES:
            continue
        now = median(losses[-NEWEST_LOSSES:])
        return (
            f"the loss is {now:.3g}, and guessing costs {guess.loss:.3g}" if now > AT_GUESSING * guess.loss else False
        )
    return None


@question(supports=(Cause.WRONG_LABELS,), outranks=(Cause.OVERFITTING,), proves=(Cause.WRONG_LABELS,))
def worse_than_guessing(known: Known) -> Answer:
    """Training is clearly better than a guess, and no evaluation came near one."""
    window, answer = known.window, None
    trained = training_losses(window)
    for column in window.columns("losses", "mean", mode="EVAL"):
        training = training_of(column, trained)
        seen = by_evaluation(column, training, window.rests(training.worker)) if training is not None else None
        if training is None or seen is None or len(seen.means) < (SEVERAL if window.is_last else NEWEST):
            continue
        guess = best_guess(window, training.tensor, worker=training.worker)
        facts = window.facts.loss(training.tensor) if window.facts else None
        level = guess.loss if guess is not None else chance_level(facts)
        if level is None:
            continue
        lowest = float(seen.means.min())
        is_worse = is_no_better(seen, guess) if guess is not None else lowest > A_TENTH_MORE * level
        if not is_worse or not median(seen.training[-NEWEST:]) < AT_GUESSING * level:
            return False
        answer = f"the validation loss was never below {lowest:.3g}, and guessing costs {level:.3g}"
    return answer


@question(
    supports=(Cause.LOSS_SIGN,), explains=(Cause.LEARNING_RATE_TOO_HIGH, Cause.EXPLODING_GRADIENTS, Cause.WRONG_LABELS)
)
def uphill(known: Known) -> Answer:
    """The loss rose from its first step on, by small steps, or with each round of trees."""
    window, columns = known.window, training_losses(known.window)
    is_of_trees = window.facts is not None and window.facts.is_of_trees
    updates = window.columns("weights", "update_ratio", mode=None)
    if not columns or not (updates or is_of_trees):
        return None
    ratio = median([float(column.values[:FIRST].max()) for column in updates]) if updates else 0.0
    if not ratio < SMALL_STEP:
        return False
    for column in columns:
        losses = column.values
        if len(losses) < COURSE_STEPS or not losses[0] > 0:
            return None
        first = median(losses[:SHORT_STRETCH])
        levels = medians_of_rows(losses[: len(losses) // SHORT_STRETCH * SHORT_STRETCH].reshape(-1, SHORT_STRETCH))
        if float(np.nanmin(levels)) < (1 - LEARNS) * first or losses[-1] <= HALF_AS_MUCH_AGAIN * first:
            return False
    if is_of_trees:
        return "the loss rose from the first tree on: each follows the gradient the wrong way"
    return f"the loss rose from its first step on, by steps of {ratio:.1%} of the weights"
