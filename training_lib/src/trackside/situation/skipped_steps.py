"""Steps that an optimizer skipped: nothing used their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.run.recorded_names import SKIPPED_BEFORE, SKIPPED_STEP
from trackside.trial.window import Column, Window

_GRADIENT = "gradient/"
SKIPS = (SKIPPED_STEP, SKIPPED_BEFORE)  # with an optimizer that was told to change nothing, and without one


def is_gradient(name: str) -> bool:
    """Return True for the name of a gradient."""
    return name.startswith(_GRADIENT)


def workers_that_skipped(window: Window) -> frozenset[str]:
    """Return the workers that skipped the window's step."""
    flags = window.at_step((SKIPPED_STEP,), "mean", mode=None)
    return frozenset(worker for worker, flag in zip(flags.workers, flags.values.tolist(), strict=True) if flag > 0)


def steps_skipped_by(window: Window, worker: str) -> NDArray[np.int64]:
    """Return the steps that a worker skipped, up to the window's step, oldest first; shape (n,)."""
    columns = window.statistic(SKIPPED_STEP, "mean", mode=None)
    steps = [column.steps[column.values > 0] for column in columns if column.worker == worker]
    return np.concatenate(steps) if steps else np.empty(0, np.int64)


def skips_in(columns: Sequence[Column]) -> int:
    """Return the number of steps that a training skipped: of the worker that skipped most, as all skip alike."""
    counts: dict[str, int] = {}
    for column in columns:
        counts[column.worker] = counts.get(column.worker, 0) + int(column.values.sum())
    return max(counts.values(), default=0)
