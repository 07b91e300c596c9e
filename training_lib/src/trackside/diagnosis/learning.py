"""The result of a training, read from its losses and gradients, whatever rules found. Pure functions of a window."""

from __future__ import annotations

from trackside.contracts.learning import Learning
from trackside.contracts.model_facts import ParameterFacts
from trackside.rules.diagnosis import finite, has_several_aims, training_losses
from trackside.rules.evaluations import by_evaluation, training_of
from trackside.rules.guessing import beats, best_guess
from trackside.rules.medians import median
from trackside.rules.phases import newest_phase, since
from trackside.rules.update_growth import may_move
from trackside.trial.window import Column, Window

FEWEST_LOSSES = 30  # losses from which a level can be told from a guess
FEWEST_GRADIENTS = 10  # measured steps; a gate that starts at zero has opened by then
_NEWEST = 20  # losses that stand for the end


def learning_of(window: Window) -> Learning:
    """Return what a run has learned.

    Args:
        window: The run up to its last step.
    """
    return Learning(_level(window), _zero_gradients(window))


def _level(window: Window) -> str:
    """Return the clause about losses that all end no better than a constant answer."""
    if has_several_aims(window):
        return ""
    columns = since(training_losses(window), newest_phase(window))
    clauses = [_above_guess(window, column) for column in columns]
    return clauses[0] if clauses and all(clauses) else ""


def _above_guess(window: Window, column: Column) -> str:
    losses = finite(column)[1]
    if len(losses) < FEWEST_LOSSES or may_move(window, column.tensor, worker=column.worker):
        return ""
    guess = best_guess(window, column.tensor, worker=column.worker)
    if guess is None or beats(losses, guess.loss):
        return ""
    evaluated = guess.loss if guess.evaluated is None else guess.evaluated
    if any(mean < evaluated for mean in _last_evaluations(window, column)):
        return ""  # dropout or noise in the training, say: the model itself is better
    return f"the loss ended at {median(losses[-_NEWEST:]):.3g}, and a constant answer costs {guess.loss:.3g}"


def _last_evaluations(window: Window, trained: Column) -> list[float]:
    """Return the mean loss of the newest evaluation, for each validation loss beside a training loss."""
    columns = [c for name in window.tensors("losses") for c in window.statistic(name, "mean", mode="EVAL")]
    seen = [by_evaluation(c, trained) for c in columns if training_of(c, (trained,)) is not None]
    return [float(one.means[-1]) for one in seen if one is not None]


def _zero_gradients(window: Window) -> str:
    """Return the clause about weight matrices with a gradient of exactly zero at each measured step."""
    facts = window.facts
    weights = [p for p in facts.parameters if _is_trained(p)] if facts is not None else []
    columns = [column for held in weights for column in window.statistic(held.gradient, "l2", mode=None)]
    seen = [column for column in columns if len(column.values) >= FEWEST_GRADIENTS]
    zero = [column for column in seen if not column.values.any()]  # NaN counts as a number
    if not zero:
        return ""
    steps = max(len(column.values) for column in zero)
    return f"{len(zero)} of {len(seen)} weights had a gradient of exactly zero at all {steps} measured steps"


def _is_trained(held: ParameterFacts) -> bool:
    return held.requires_grad and bool(held.optimizer) and not held.tied_to and len(held.shape) > 1
