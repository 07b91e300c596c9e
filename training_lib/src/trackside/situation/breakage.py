"""Numbers that became infinite or NaN: where they broke, and how suddenly. Pure functions of a window."""

from __future__ import annotations

import numpy as np

from trackside.contracts.errors import TensorNotSavedError
from trackside.situation.constants import SUDDEN, VALUES_OF_A_LEVEL
from trackside.situation.losses.losses import training_losses
from trackside.situation.measurements import Evidence
from trackside.situation.medians import median
from trackside.trial.window import Window


def undefined_value(window: Window) -> str:
    """Return the evidence of a computation without a value, a clause; "" for none.

    Numbers broke out of the blue, and not by the data: the loss of the step was still finite and its gradients were
    not, or inputs and labels are whole numbers, which cannot hold NaN. In float16 they may have overflowed.
    """
    if Evidence(window).is_low_precision:
        return ""
    gradient, loss = _gradient_broke_at(window), _loss_broke_at(window)
    first = min((step for step in (gradient, loss) if step is not None), default=None)
    growth = growth_before(window, step=first) if first is not None else None
    if growth is None or growth > SUDDEN:
        return ""
    if gradient is not None and (loss is None or gradient < loss) and _loss_is_known(window, gradient):
        return f"the loss of step {gradient} was finite, and its gradients were not"
    if first == loss and _data_are_whole_numbers(window):
        return f"the loss broke out of the blue at step {loss}, and inputs and labels are whole numbers"
    return ""


def _gradient_broke_at(window: Window) -> int | None:
    """Return the first step at which a gradient, or a weight after the step, was not finite; None if all were."""
    names = window.tensors("gradients")
    columns = [c for name in names for c in window.statistic(name, "l2", mode=None)]
    broken = [c.steps[~np.isfinite(c.values)] for c in columns]
    counts = [
        c for n in (*names, *window.tensors("weights")) for c in window.statistic(n, "nonfinite_count", mode=None)
    ]
    broken += [c.steps[c.values > 0] for c in counts]
    return min((int(steps[0]) for steps in broken if steps.size), default=None)


def _loss_broke_at(window: Window) -> int | None:
    broken = [column.steps[~np.isfinite(column.values)] for column in training_losses(window)]
    return min((int(steps[0]) for steps in broken if steps.size), default=None)


def _loss_is_known(window: Window, step: int) -> bool:
    return any((column.steps == step).any() for column in training_losses(window))


def _data_are_whole_numbers(window: Window) -> bool:
    """Return True if saved inputs and labels are all whole numbers; False also if either was never saved."""
    kinds: list[str] = []
    for collection in ("model_inputs", "labels"):
        found = [kind for name in window.tensors(collection) for kind in _kinds_of(window, name)]
        if not found:
            return False
        kinds += found
    return all(kind in "iub" for kind in kinds)


def _kinds_of(window: Window, name: str) -> list[str]:
    """Return the kinds of numbers of a tensor, as NumPy's letters, of the newest saved value of each worker."""
    kinds: list[str] = []
    for column in window.statistic(name, "mean", mode=None):
        try:
            kinds.append(window.value(name, worker=column.worker, step=int(column.steps[-1])).dtype.kind)
        except TensorNotSavedError:  # reductions only
            continue
    return kinds


def growth_before(window: Window, *, step: int) -> float | None:
    """Return the largest loss or gradient norm of the ten steps before `step`, over the median of all earlier ones.

    The largest quotient of all losses and gradients; None if fewer than three steps are known, and for a log, where
    they may have grown between two rows.
    """
    if window.facts is not None and window.facts.is_of_log:
        return None
    names = [*((name, "mean") for name in window.tensors("losses")), *((n, "l2") for n in window.tensors("gradients"))]
    growths = []
    for name, statistic in names:
        for column in window.statistic(name, statistic, mode=None):
            sizes = np.abs(column.values[column.steps < step])
            sizes = sizes[np.isfinite(sizes)]
            usual = (
                median(sizes[:-VALUES_OF_A_LEVEL] if len(sizes) > 2 * VALUES_OF_A_LEVEL else sizes[:1])
                if len(sizes) > 2
                else 0.0
            )
            if usual > 0:
                growths.append(float(sizes[-VALUES_OF_A_LEVEL:].max()) / usual)
    return max(growths, default=None)
