"""Numbers that several workers recorded of their copies of one thing. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.trial.window import Column


def norms_by_step(columns: Sequence[Column]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the steps common to all columns, shape (n,), and their values at these, shape (columns, n)."""
    common = columns[0].steps
    for column in columns[1:]:
        common = np.intersect1d(common, column.steps, assume_unique=True)
    return common, np.stack([column.values[np.searchsorted(column.steps, common)] for column in columns])


def spread(norms: NDArray[np.float64]) -> float:
    """Return (largest - smallest) / largest of non-negative values, shape (n,); 0 if all are 0 or any is not finite."""
    largest = float(norms.max())
    if not np.isfinite(norms).all() or largest == 0:
        return 0.0
    return float(largest - norms.min()) / largest
