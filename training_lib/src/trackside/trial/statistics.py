"""The statistics a rule may ask for: each a plain function of one tensor's values.

Non-finite values are not hidden: a tensor that holds a NaN has a NaN mean, as in NumPy. Sums are float64, whatever the
tensor's own type, so that a float16 gradient cannot overflow on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def mean(x: Values) -> float:
    """Arithmetic mean."""
    return float(x.mean())


def std(x: Values) -> float:
    """Population standard deviation (divides by n), as NumPy's default."""
    return float(x.std())


def smallest(x: Values) -> float:
    """Smallest value."""
    return float(x.min())


def largest(x: Values) -> float:
    """Largest value."""
    return float(x.max())


def abs_mean(x: Values) -> float:
    """Mean of the absolute values."""
    return float(np.abs(x).mean())


def abs_max(x: Values) -> float:
    """Largest absolute value."""
    return max(abs(float(x.min())), abs(float(x.max()))) if not np.isnan(x).any() else math.nan


def l2(x: Values) -> float:
    """Euclidean norm over all elements."""
    return math.sqrt(float(np.square(x).sum()))  # not np.dot: BLAS threads spin against the training for a core


def zero_share(x: Values) -> float:
    """Share of exact zeros, 0 to 1."""
    return 1.0 - np.count_nonzero(x) / x.size


def nonfinite_count(x: Values) -> float:
    """How many elements are NaN or infinite."""
    return float(x.size - np.count_nonzero(np.isfinite(x)))


def nan_count(x: Values) -> float:
    """How many elements are NaN."""
    return float(np.count_nonzero(np.isnan(x)))


STATISTICS: Mapping[str, Callable[[Values], float]] = {
    "mean": mean,
    "std": std,
    "min": smallest,
    "max": largest,
    "abs_mean": abs_mean,
    "abs_max": abs_max,
    "l2": l2,
    "zero_share": zero_share,
    "nonfinite_count": nonfinite_count,
    "nan_count": nan_count,
}

# Which saved reductions answer which statistic (contracts: smdebug 1.0.34, reduction tensors). The original saves `std`
# unbiased (n - 1): on any tensor worth a reduction the difference is far below what a threshold can tell.
REDUCTIONS: Mapping[str, tuple[str, ...]] = {
    "mean": ("mean",),
    "std": ("std",),
    "min": ("min",),
    "max": ("max",),
    "abs_mean": ("abs_mean",),
    "abs_max": ("abs_max",),
    "l2": ("l2", "abs_l2"),
}


def summarise(tensor: NDArray[np.generic]) -> tuple[float, ...] | None:
    """All of `STATISTICS`, in its order; None for a tensor that is empty or holds no real numbers (text, complex)."""
    if tensor.size == 0 or tensor.dtype.kind not in "biuf":
        return None
    if tensor.size == 1:
        return _of_one(float(tensor.reshape(())[()]))
    values = tensor.astype(np.float64, copy=False).reshape(-1)
    with np.errstate(all="ignore"):  # inf - inf and overflow are answers here, not accidents
        return tuple(statistic(values) for statistic in STATISTICS.values())


def _of_one(value: float) -> tuple[float, ...]:
    """The same numbers for a single value, without the price of ten NumPy calls: most tensors read are losses."""
    size = abs(value)
    spread = 0.0 if math.isfinite(value) else math.nan
    return (
        value,
        spread,
        value,
        value,
        size,
        size,
        size,
        float(value == 0),
        float(not math.isfinite(value)),
        float(math.isnan(value)),
    )
