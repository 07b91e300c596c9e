"""Steps that an optimizer skipped: nothing used their gradients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.recorded_names import SKIPPED_STEP
from trackside.trial.window import Window

_GRADIENT = "gradient/"


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
