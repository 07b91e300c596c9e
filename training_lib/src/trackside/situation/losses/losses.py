"""The losses of a training, and what they show of its learning. Pure functions of a window."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.model_facts import LossFacts, ModelFacts
from trackside.situation.constants import MAD_TO_DEVIATION, MEDIAN_TO_ERROR
from trackside.situation.medians import median
from trackside.trial.window import Column, Window

TRAINING_MODES = ("TRAIN", "GLOBAL")


def training_losses(window: Window) -> tuple[Column, ...]:
    """Return the columns of the training losses (mode TRAIN, or GLOBAL if the script sets none), as recorded."""
    names = window.tensors("losses")
    for mode in TRAINING_MODES:
        columns = tuple([column for name in names for column in window.statistic(name, "mean", mode=mode)])
        if columns:
            return columns
    return ()


def whole_losses(window: Window) -> tuple[Column, ...]:
    """Return the training losses, without addends of another one: an addend may rise while the sum falls."""
    columns = training_losses(window)
    parts = parts_of_sums(window.facts, [column.tensor for column in columns])
    return tuple(column for column in columns if column.tensor not in parts) if parts else columns


def parts_of_sums(facts: ModelFacts | None, losses: Sequence[str]) -> frozenset[str]:
    """Return those of these losses that are addends of another one.

    Args:
        facts: The facts of the run.
        losses: Names of training losses.
    """
    known = [loss for name in losses if facts and (loss := facts.loss(name)) is not None]
    sums = {loss.backward_line for loss in known if not loss.is_built_in and loss.backward_line}
    return frozenset(loss.name for loss in known if loss.is_built_in and loss.backward_line in sums)


def learned_share(window: Window, *, newest: int = 20) -> float | None:
    """Return the largest share of its first value that a training loss has lost.

    Negative if it rose, -infinity for a loss that is not finite, None without a loss. The first value is the larger of
    the first loss and the median of the first `newest`; the present one is the median of the newest. Losses that are
    ever negative do not count.

    Args:
        window: The window to read.
        newest: The number of losses in a median.
    """
    shares = []
    for column in training_losses(window):
        losses = column.values
        if not np.isfinite(losses).all():
            return -math.inf
        if (losses < 0).any():
            continue
        start = max(float(losses[0]), median(losses[:newest]))
        shares.append(1 - median(losses[-newest:]) / start if start > 0 else 0.0)
    return max(shares, default=None)


def has_gained(window: Window, *, share: float) -> bool:
    """Return True if a training loss has fallen by more than `share` of its first size, and more than its noise.

    The loss at first and now are the medians of the first and of the newest quarter of the steps, 5 to 50 of each. The
    size is |the median| at first, or the deviation of the losses, whichever is larger, so that losses about zero count
    too.

    Args:
        window: The window to read.
        share: The share of the loss's size.
    """
    return any(_gain(finite(column)[1]) > share for column in training_losses(window))


def still_falls(window: Window) -> bool:
    """Return True if a training loss falls in the newer half of its steps, by more than its noise."""
    halves = [finite(column)[1] for column in training_losses(window)]
    return any(_gain(losses[len(losses) // 2 :]) > 0 for losses in halves)


def _gain(losses: NDArray[np.float64]) -> float:
    """Return the fall of losses as a share of their size, less twice its error; -inf for too few losses."""
    count = min(50, len(losses) // 4)
    if count < 5:
        return -math.inf
    first, now = losses[:count], losses[-count:]
    size = max(abs(median(first)), float(losses.std()))
    if not 0 < size < math.inf:
        return -math.inf
    error = math.hypot(error_of_median(first), error_of_median(now))
    return (float(median(first) - median(now)) - 2 * error) / size


def error_of_median(values: NDArray[np.float64]) -> float:
    """Return the standard error of the median of normal noise, from the median absolute deviation.

    Args:
        values: The values, shape (n,).
    """
    deviation = median(np.abs(values - median(values)))
    return MEDIAN_TO_ERROR * MAD_TO_DEVIATION * deviation / math.sqrt(len(values))


def chance_level(loss: LossFacts | None) -> float | None:
    """Return the cross entropy of guessing, ln(classes); None if a loss is no mean cross entropy over known classes."""
    if loss is None or loss.class_count is None or loss.class_count < 2 or loss.reduction != "mean":
        return None
    return math.log(loss.class_count) if loss.type_name in {"CrossEntropyLoss", "NLLLoss"} else None


def finite(column: Column) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the steps and values of a column that are finite."""
    kept = np.isfinite(column.values)
    return column.steps[kept], column.values[kept]
