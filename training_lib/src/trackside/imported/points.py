"""One number of a log over its steps, gathered in bounded memory.

A series that grows beyond the bound is thinned: neighbours become one point, with the mean of their values. A mean with
a value that is not finite is not finite either, so that no NaN is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_POINTS = 1 << 16  # of one series; while it is read, up to twice as many
_MOST_RAW = 1 << 14


@dataclass(frozen=True, eq=False)
class Points:
    """The points of one series, in the order of the log.

    steps    step, or number of the row, of each point: int64 of shape (n,)
    values   float64 of shape (n,)
    times    seconds since the epoch: float64 of shape (n,); 0 where the log has none
    merged   number of logged points that each point is the mean of
    """

    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    times: NDArray[np.float64]
    merged: int = 1

    def __len__(self) -> int:
        return len(self.steps)

    def kept(self, places: NDArray[np.bool_] | NDArray[np.intp]) -> Points:
        """Return the points at these places.

        Args:
            places: A mask of shape (n,), or indices.
        """
        return Points(self.steps[places], self.values[places], self.times[places], self.merged)

    def numbered(self) -> Points:
        """Return the points with their places, from 1, in place of steps."""
        return Points(np.arange(1, len(self) + 1), self.values, self.times, self.merged)


class Gathering:
    """A series that is being read.

    Args:
        counts: The values count something, as steps do: of merged points the last one stays, not the mean.
        most: The most points to keep.
    """

    def __init__(self, *, counts: bool = False, most: int = MOST_POINTS) -> None:
        self._counts, self._most = counts, most
        self._raw: list[Points] = []
        self._raw_count = 0
        self._kept = points_of([], [])
        self._loose: tuple[list[int], list[float], list[float]] = ([], [], [])

    def __len__(self) -> int:
        """Return the number of points that are held at present."""
        return len(self._kept) + self._raw_count + len(self._loose[0])

    def add(self, step: int, value: float, time: float = 0.0) -> None:
        """Add one point."""
        steps, values, times = self._loose
        steps.append(step)
        values.append(value)
        times.append(time)
        if len(steps) >= _MOST_RAW:
            self._settle_loose()

    def extend(self, steps: ArrayLike, values: ArrayLike, times: ArrayLike | None = None) -> None:
        """Add points, in the order of the log; each argument has the shape (n,)."""
        if self._loose[0]:
            self._settle_loose()
        self._raw.append(points_of(steps, values, times))
        self._raw_count += len(self._raw[-1])
        if self._raw_count >= max(_MOST_RAW, self._most):
            self._settle()

    def points(self) -> Points:
        """Return all points so far; more may be added after."""
        self._settle_loose()
        self._settle()
        each = self._kept.merged
        rest = [merged(joined(self._raw), each, counts=self._counts)] if self._raw else []
        return joined([self._kept, *rest], each)

    def _settle_loose(self) -> None:
        loose, self._loose = self._loose, ([], [], [])
        if loose[0]:
            self.extend(*loose)

    def _settle(self) -> None:
        """Merge the raw points as the kept ones are merged; a rest waits for its neighbours."""
        if not self._raw:
            return
        raw, each = joined(self._raw), self._kept.merged
        whole = len(raw) // each * each
        places = np.arange(len(raw))
        self._raw = [raw.kept(places[whole:])] if whole < len(raw) else []
        self._raw_count = len(raw) - whole
        self._kept = joined([self._kept, merged(raw.kept(places[:whole]), each, counts=self._counts)], each)
        while len(self._kept) > 2 * self._most:
            self._kept = merged(self._kept, 2, counts=self._counts)


def merged(points: Points, each: int, *, counts: bool = False) -> Points:
    """Return the points with `each` neighbours as one, at the step of their last; the last may be of fewer.

    Args:
        points: The points.
        each: Number of neighbours, at least 1.
        counts: Keep the last of them rather than the mean.
    """
    if each == 1 or not len(points):
        return points
    starts = np.arange(0, len(points), each)
    ends = np.append(starts[1:], len(points)) - 1
    values = points.values[ends]
    if not counts:
        with np.errstate(all="ignore"):
            values = np.add.reduceat(points.values, starts) / (ends - starts + 1)
    return Points(points.steps[ends], values, points.times[ends], points.merged * each)


def thinned(points: Points, most: int) -> Points:
    """Return at most `most` points.

    Args:
        points: The points.
        most: The number of points to keep, at least 1.
    """
    return merged(points, -(-len(points) // most)) if len(points) > most else points


def points_of(steps: ArrayLike, values: ArrayLike, times: ArrayLike | None = None) -> Points:
    """Return points from arrays or lists of shape (n,)."""
    own = np.asarray(steps, np.int64)
    return Points(
        own, np.asarray(values, np.float64), np.zeros(len(own)) if times is None else np.asarray(times, np.float64)
    )


def in_order(points: Points) -> Points:
    """Return the points by ascending steps, each step once: what was logged last holds."""
    steps = points.steps
    if not len(steps) or (np.diff(steps) > 0).all():
        return points
    newest_first = steps[::-1]
    _, first = np.unique(newest_first, return_index=True)
    return points.kept(len(steps) - 1 - first)


def joined(parts: Sequence[Points], each: int = 1) -> Points:
    """Return the points of several parts, one after the other.

    Args:
        parts: At least one.
        each: Number of logged points that each point is the mean of.
    """
    return Points(
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.times for part in parts]),
        each,
    )
