"""The result of a training, read from its losses and gradients, whatever rules found. Pure functions of a window."""

from __future__ import annotations

from trackside.contracts.model_facts import ParameterFacts
from trackside.contracts.run.learning import Learning
from trackside.contracts.run.recorded_names import HELD_OUT_SCORE, RAN_OUT, RESTED_STEPS
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import COURSE_STEPS, ENOUGH_STEPS, NEWEST_LOSSES
from trackside.situation.losses.evaluations import by_evaluation, training_of
from trackside.situation.losses.guessing import beats, best_guess
from trackside.situation.losses.last_losses import last_losses
from trackside.situation.losses.losses import finite, training_losses
from trackside.situation.medians import median
from trackside.situation.phases import newest_phase, since
from trackside.situation.skipped_steps import SKIPS, skips_in
from trackside.situation.update_growth import may_move
from trackside.trial.window import Column, Window


def learning_of(window: Window) -> Learning:
    """Return what a run has learned."""
    return Learning(
        _level(window) or _held_out(window),
        _zero_gradients(window),
        skipped=_skipped(window),
        ran_out=_ran_out(window),
        rested=_rested(window),
        losses=last_losses(window),
    )


def _held_out(window: Window) -> str:
    """Return the clause about scores of held-out rows that are all no better than a guess."""
    columns = window.statistic(HELD_OUT_SCORE, "mean", mode=None)
    return f"held-out rows have a score of {columns[0].values[-1]:.3g}, no better than a guess" if columns else ""


def _ran_out(window: Window) -> str:
    """Return the clause about a limit that ended the training."""
    columns = window.statistic(RAN_OUT, "mean", mode=None)
    if not columns:
        return ""
    limit = columns[0].values[-1]
    return (
        f"the limit of {limit:,.0f} steps ended it before it converged"
        if limit
        else "its library warned that it had not converged"
    )


def _rested(window: Window) -> int:
    columns = window.statistic(RESTED_STEPS, "mean", mode=None)
    return int(columns[0].values.sum()) if columns else 0


def _skipped(window: Window) -> str:
    """Return the clause about skipped steps."""
    count = skips_in([column for name in SKIPS for column in window.statistic(name, "mean", mode=None)])
    program = window.facts.program if window.facts is not None else None
    by_scaler = " by GradScaler" if program is not None and program.has_grad_scaler else ""
    return f"{count:,} step{' was' if count == 1 else 's were'} skipped{by_scaler}" if count else ""


def _level(window: Window) -> str:
    """Return the clause about losses that all end no better than a constant answer."""
    if has_several_aims(window):
        return ""
    columns = since(training_losses(window), newest_phase(window))
    clauses = [_above_guess(window, column) for column in columns]
    return clauses[0] if clauses and all(clauses) else ""


def _above_guess(window: Window, column: Column) -> str:
    losses = finite(column)[1]
    if len(losses) < ENOUGH_STEPS or may_move(window, column.tensor, worker=column.worker):
        return ""
    guess = best_guess(window, column.tensor, worker=column.worker)
    if guess is None or beats(losses, guess.loss):
        return ""
    evaluated = guess.loss if guess.evaluated is None else guess.evaluated
    if any(mean < evaluated for mean in _last_evaluations(window, column)):
        return ""  # dropout or noise in the training, say: the model itself is better
    return f"the loss ended at {median(losses[-NEWEST_LOSSES:]):.3g}, and a constant answer costs {guess.loss:.3g}"


def _last_evaluations(window: Window, trained: Column) -> list[float]:
    """Return the mean loss of the newest evaluation, for each validation loss beside a training loss."""
    columns = window.columns("losses", "mean", mode="EVAL")
    rests = window.rests(trained.worker)
    seen = [by_evaluation(c, trained, rests) for c in columns if training_of(c, (trained,)) is not None]
    return [float(one.means[-1]) for one in seen if one is not None]


def _zero_gradients(window: Window) -> str:
    """Return the clause about weight matrices with a gradient of exactly zero at each measured step."""
    facts = window.facts
    weights = [p for p in facts.parameters if _is_trained(p)] if facts is not None else []
    columns = [column for held in weights for column in window.statistic(held.gradient, "l2", mode=None)]
    seen = [column for column in columns if len(column.values) >= COURSE_STEPS]
    zero = [column for column in seen if not column.values.any()]  # NaN counts as a number
    if not zero:
        return ""
    steps = max(len(column.values) for column in zero)
    return f"{len(zero)} of {len(seen)} weights had a gradient of exactly zero at all {steps} measured steps"


def _is_trained(held: ParameterFacts) -> bool:
    return held.requires_grad and bool(held.optimizer) and not held.tied_to and len(held.shape) > 1
