"""Numbers over steps in few buckets. A bucket keeps its extremes, and a number that is not finite is never hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Buckets:
    """Numbers over steps, some steps to a bucket. Buckets without a number are left out.

    first, last   first and last step with a number, int64 of shape (n,)
    low, mean, high   of the finite numbers, float64 of shape (n,); NaN where none is finite
    count         numbers in the bucket, int64 of shape (n,)
    is_broken     True where a number is not finite, of shape (n,)
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    low: NDArray[np.float64]
    mean: NDArray[np.float64]
    high: NDArray[np.float64]
    count: NDArray[np.int64]
    is_broken: NDArray[np.bool_]


def edges_of(first: int, last: int, count: int) -> NDArray[np.int64]:
    """Return the first step of each bucket and the end of the last one, at most `count` buckets of a step or more."""
    buckets = max(1, min(count, last - first + 1))
    return np.unique(np.linspace(first, last + 1, buckets + 1).astype(np.int64))


def bucketed(steps: NDArray[np.int64], values: NDArray[np.float64], edges: NDArray[np.int64]) -> Buckets:
    """Return numbers in buckets.

    Args:
        steps: Ascending, of shape (m,), within the edges.
        values: Of shape (m,).
        edges: As `edges_of` returns them.
    """
    places = np.searchsorted(edges, steps, side="right") - 1
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    if not len(starts):
        nothing = np.empty(0)
        none = nothing.astype(np.int64)
        return Buckets(none, none, nothing, nothing, nothing, none, nothing.astype(bool))
    is_finite = np.isfinite(values)
    counts = np.diff(np.append(starts, len(steps)))
    finite = np.add.reduceat(is_finite.astype(np.int64), starts)
    with np.errstate(all="ignore"):
        low = np.minimum.reduceat(np.where(is_finite, values, np.inf), starts)
        high = np.maximum.reduceat(np.where(is_finite, values, -np.inf), starts)
        mean = np.add.reduceat(np.where(is_finite, values, 0.0), starts) / finite
    low, high, mean = (np.where(finite > 0, each, np.nan) for each in (low, high, mean))
    ends = np.append(starts[1:], len(steps)) - 1
    return Buckets(steps[starts], steps[ends], low, np.clip(mean, low, high), high, counts, finite < counts)
