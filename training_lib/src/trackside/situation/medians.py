"""Medians of short arrays, as NumPy defines them, at a fraction of its fixed cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def median(values: NDArray[np.floating[Any]] | Sequence[float]) -> float:
    """Return the median, as `np.median` does; NaN if a value is NaN, or without values.

    Args:
        values: The values, shape (n,).
    """
    ordered = np.array(values, np.float64)
    count = len(ordered)
    if not count:
        return math.nan
    half = count // 2
    ordered.partition((half, count - 1) if count % 2 else (half - 1, half, count - 1))
    if math.isnan(ordered[-1]):  # NaN comes last
        return math.nan
    return float(ordered[half]) if count % 2 else float((ordered[half - 1] + ordered[half]) / 2)


def medians_of_rows(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of each row, as `np.median` does; NaN for a row with one. NumPy's own imports `numpy.ma`.

    Args:
        rows: The values, shape (rows, n), n >= 1.
    """
    count = rows.shape[1]
    half = count // 2
    ordered = np.partition(rows, (half, count - 1) if count % 2 else (half - 1, half, count - 1), axis=1)
    found = ordered[:, half] if count % 2 else (ordered[:, half - 1] + ordered[:, half]) / 2
    return np.where(np.isnan(ordered[:, -1]), np.nan, found)


def medians_of_three(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of every three successive values, shape (n - 2,).

    Args:
        values: The values, without NaN, shape (n,), n >= 3.
    """
    first, second, third = values[:-2], values[1:-1], values[2:]
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.maximum(low, np.minimum(high, third))
