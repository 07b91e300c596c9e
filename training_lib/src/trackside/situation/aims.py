"""The aims of a training: one, or several that compete or are trained in turns."""

from __future__ import annotations

from trackside.situation.losses.losses import training_losses
from trackside.trial.window import Window


def has_several_aims(window: Window) -> bool:
    """Return True for models that compete, or are trained in turns: no single loss must fall, no label is a class.

    Several optimizers that always step together, with one training loss, have one aim: they share the parameters of a
    model, each by its own algorithm.
    """
    if window.facts is None or len(window.facts.optimizers) < 2:
        return False
    if len({column.tensor for column in training_losses(window)}) > 1:
        return True
    steps: dict[str, set[tuple[str, bytes]]] = {}
    for optimizer in window.facts.optimizers:
        rates = window.statistic(f"hyperparameters/{optimizer.name}/group_0/lr", "mean", mode=None)
        steps[optimizer.name] = {(rate.worker, rate.steps.tobytes()) for rate in rates}
    return not all(steps.values()) or len({frozenset(some) for some in steps.values()}) > 1
