"""The statistics of a tensor: each a plain function of its values, or of many tensors of one shape at once.

Non-finite values are not hidden: a tensor that holds a NaN has a NaN mean, as in NumPy. Sums are float64, whatever the
tensor's own type, so that a float16 gradient cannot overflow on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

_ELEMENTS_AT_ONCE = 1 << 16  # float64 values that stay in the cache

Values = NDArray[np.float64]  # one tensor: shape (elements,); several of one shape: (tensors, elements)


def mean(x: Values) -> Values:
    """Return the arithmetic mean."""
    return np.asarray(x.mean(axis=-1))


def std(x: Values) -> Values:
    """Return the population standard deviation (divides by n), NumPy's default."""
    return np.asarray(x.std(axis=-1))


def smallest(x: Values) -> Values:
    """Return the smallest value."""
    return np.asarray(x.min(axis=-1))


def largest(x: Values) -> Values:
    """Return the largest value."""
    return np.asarray(x.max(axis=-1))


def abs_mean(x: Values) -> Values:
    """Return the mean of the absolute values."""
    return np.asarray(np.abs(x).mean(axis=-1))


def abs_max(x: Values) -> Values:
    """Return the largest absolute value."""
    return np.asarray(np.maximum(np.abs(x.min(axis=-1)), np.abs(x.max(axis=-1))))


def l2(x: Values) -> Values:
    """Return the Euclidean norm over all elements."""
    return np.asarray(
        np.sqrt(np.square(x).sum(axis=-1))
    )  # not np.dot: BLAS threads spin against the training for a core


def zero_share(x: Values) -> Values:
    """Return the share of exact zeros, 0 to 1."""
    return np.asarray(1.0 - np.count_nonzero(x, axis=-1) / x.shape[-1])


def nonfinite_count(x: Values) -> Values:
    """Return the number of NaN or infinite elements."""
    return np.asarray(x.shape[-1] - np.count_nonzero(np.isfinite(x), axis=-1), np.float64)


def nan_count(x: Values) -> Values:
    """Return the number of NaN elements."""
    return np.asarray(np.count_nonzero(np.isnan(x), axis=-1), np.float64)


STATISTICS: Mapping[str, Callable[[Values], Values]] = {
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

# Statistics that tell how large a tensor is, in the order in which users want them.
MAGNITUDES = ("abs_mean", "mean", "l2", "abs_max")

# Statistics that only capture can record: no saved tensor yields them later. A run without them returns no column.
RECORDED_ONLY = ("is_present", "is_sharded", "max_norm", "update_l2", "update_ratio")

# The same for tensors of one element each, from their values: exact, where a square and its root are not.
OF_SINGLES: Mapping[str, Callable[[Values], Values]] = {
    "mean": np.asarray,
    "std": lambda values: np.where(np.isfinite(values), 0.0, np.nan),
    "min": np.asarray,
    "max": np.asarray,
    "abs_mean": np.abs,
    "abs_max": np.abs,
    "l2": np.abs,
    "zero_share": lambda values: (values == 0).astype(np.float64),
    "nonfinite_count": lambda values: (~np.isfinite(values)).astype(np.float64),
    "nan_count": lambda values: np.isnan(values).astype(np.float64),
}

# Which saved reductions answer which statistic (contracts: smdebug 1.0.34, reduction tensors). The original saves `std`
# unbiased (n - 1): on any tensor worth a reduction the difference is far below the precision of any threshold.
REDUCTIONS: Mapping[str, tuple[str, ...]] = {
    "mean": ("mean",),
    "std": ("std",),
    "min": ("min",),
    "max": ("max",),
    "abs_mean": ("abs_mean",),
    "abs_max": ("abs_max",),
    "l2": ("l2", "abs_l2"),
}


def summarise(tensor: NDArray[np.generic]) -> float | Values | None:
    """Return all of `STATISTICS` in their order, shape (statistics,); the value itself for a tensor of one element.

    None for a tensor that is empty or holds no real numbers (text, complex).
    """
    if tensor.size == 0 or tensor.dtype.kind not in "biuf":
        return None
    if tensor.size == 1:
        return float(tensor.item())
    return summarise_many(tensor.reshape(1, -1))[:, 0]


def summarise_many(tensors: NDArray[np.generic]) -> Values:
    """Return `summarise` for real tensors of one shape, (tensors, elements): shape (statistics, tensors).

    Tensors of one element give (1, tensors): their values.
    """
    count, elements = tensors.shape
    if elements == 1:
        return tensors.astype(np.float64).reshape(1, count)
    summaries = np.empty((len(STATISTICS), count))
    at_once = max(1, _ELEMENTS_AT_ONCE // elements)
    with np.errstate(all="ignore"):  # inf - inf and overflow are answers here, not accidents
        for first in range(0, count, at_once):
            values = np.ascontiguousarray(tensors[first : first + at_once], np.float64)
            for row, statistic in zip(summaries, STATISTICS.values(), strict=True):
                row[first : first + at_once] = statistic(values)
    return summaries


def widened(singles: Values) -> Values:
    """Return all of `STATISTICS` of tensors of one element each, from their values: (1, n) -> (statistics, n)."""
    return np.stack([statistic(singles[0]) for statistic in OF_SINGLES.values()])
