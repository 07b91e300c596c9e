"""Numbers over steps in few buckets. A bucket keeps its extremes, and a number that is not finite is never hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_PIECE = 1 << 17  # numbers that are put into buckets at once: each takes some ten bytes meanwhile


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
    sums = BucketSums(edges)
    for first in range(0, len(steps), _PIECE):
        sums.add(steps[first : first + _PIECE], values[first : first + _PIECE])
    return sums.buckets()


@dataclass(frozen=True, eq=False)
class Places:
    """The buckets of ascending steps.

    inside        the steps within the edges
    starts        where each bucket begins among them, of shape (n,)
    at            the place of each bucket, of shape (n,)
    first, last, count   first step, last step and number of steps of each bucket, of shape (n,)
    """

    inside: slice
    starts: NDArray[np.intp]
    at: NDArray[np.intp]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    count: NDArray[np.int64]

    @classmethod
    def of(cls, steps: NDArray[np.int64], edges: NDArray[np.int64]) -> Places:
        """Return the places of `steps` within `edges`."""
        begin, end = np.searchsorted(steps, (edges[0], edges[-1]))
        steps = steps[begin:end]
        places = np.searchsorted(edges, steps, side="right") - 1
        starts = np.flatnonzero(np.diff(places, prepend=-1))
        ends = np.append(starts[1:], len(steps))[: len(starts)] - 1
        return cls(slice(begin, end), starts, places[starts], steps[starts], steps[ends], ends - starts + 1)


class BucketSums:
    """Buckets that are filled piece by piece, so that a long run is never in memory as a whole.

    Args:
        edges: As `edges_of` returns them.
    """

    def __init__(self, edges: NDArray[np.int64]) -> None:
        self._edges, size = edges, len(edges) - 1
        self._first, self._last = np.full(size, np.iinfo(np.int64).max), np.full(size, np.iinfo(np.int64).min)
        self._low, self._high, self._sum = np.full(size, np.inf), np.full(size, -np.inf), np.zeros(size)
        self._finite, self._count = np.zeros(size, np.int64), np.zeros(size, np.int64)

    def add(self, steps: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Add numbers, ascending by step within a piece. Steps beyond the edges are left out."""
        self.add_at(Places.of(steps, self._edges), values)

    def add_at(self, places: Places, values: NDArray[np.float64]) -> None:
        """Add numbers at steps with known places: tensors that were measured together share them."""
        if not len(places.at):
            return
        at, starts, values = places.at, places.starts, values[places.inside]
        is_finite = np.isfinite(values)
        self._first[at] = np.minimum(self._first[at], places.first)
        self._last[at] = np.maximum(self._last[at], places.last)
        self._count[at] += places.count
        if is_finite.all():
            finite = low = high = values
            self._finite[at] += places.count
        else:
            finite, low, high = (np.where(is_finite, values, word) for word in (0.0, np.inf, -np.inf))
            self._finite[at] += np.add.reduceat(is_finite.astype(np.int64), starts)
        with np.errstate(all="ignore"):
            self._low[at] = np.minimum(self._low[at], np.minimum.reduceat(low, starts))
            self._high[at] = np.maximum(self._high[at], np.maximum.reduceat(high, starts))
            self._sum[at] += np.add.reduceat(finite, starts)

    def merge(self, other: BucketSums) -> None:
        """Add the numbers of other buckets with the same edges."""
        self._first, self._low = np.minimum(self._first, other._first), np.minimum(self._low, other._low)
        self._last, self._high = np.maximum(self._last, other._last), np.maximum(self._high, other._high)
        self._sum, self._finite = self._sum + other._sum, self._finite + other._finite
        self._count = self._count + other._count

    def buckets(self) -> Buckets:
        """Return the buckets with a number so far."""
        some = np.flatnonzero(self._count)
        finite, count = self._finite[some], self._count[some]
        with np.errstate(all="ignore"):
            mean = self._sum[some] / finite
        low, high, mean = (np.where(finite > 0, each, np.nan) for each in (self._low[some], self._high[some], mean))
        return Buckets(self._first[some], self._last[some], low, np.clip(mean, low, high), high, count, finite < count)
