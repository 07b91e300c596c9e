"""Rows of evaluations that lie among rows of the training: windows of one series, shifted by a few steps.

A row of numbers is a series of steps, along each of its axes. A run is some steps in a row, all of them different. The
training's runs are kept but for those at both ends of a row, so that only a row that begins and ends elsewhere within
rows of the training counts: where later steps are held out, no row ends in what was trained on. Columns that repeat
what stands at the same place in other rows (a grid, the features of a user) do not count either.

Of many runs those are kept, and looked up, with a digest that a power of two divides, which are the same on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trackside.frameworks.pytorch.ground.batch_tensors import readable_tensors

RUN = 5  # steps
FEWEST_STEPS = RUN + 2  # of a row: one run at least is at neither end
MOST_KEPT = 1 << 16  # runs along an axis
MOST_ELEMENTS = 1 << 16  # of a batch of the training
FEWEST_RUNS = 16  # different ones at each end of the rows of a pass, and different first steps
_FACTOR, _OTHER = 0x9E3779B97F4A7C15 - (1 << 64), 0xC2B2AE3D27D4EB4F - (1 << 64)  # odd, of many bits
_AXES = 2  # of a row, at most

Runs = NDArray[np.int64]


class Ends:
    """The runs at both ends of the rows of one pass of an evaluation, along one axis."""

    def __init__(self) -> None:
        self.first: Counter[int] = Counter()
        self.last: Counter[int] = Counter()
        self.steps: set[int] = set()

    @classmethod
    def of_axes(cls) -> list[Ends]:
        """Return those of a new pass, for each axis of its rows."""
        return [cls() for _ in range(_AXES)]


class OverlappingRows:
    """The runs of the training's rows, by the axis of a row."""

    def __init__(self) -> None:
        self._axes = [_Axis() for _ in range(_AXES)]

    def remember(self, batch: Any) -> None:
        """Keep the runs of a batch of the training.

        Args:
            batch: The batch, as a DataLoader returned it.
        """
        rows = series_of(batch)
        if rows is None:
            return
        most = MOST_ELEMENTS // max(1, rows[0].numel())
        for place, steps in _steps_along_axes(rows[:: max(1, -(-len(rows) // most))] if most else rows[:0]):
            inner = _runs(steps)[:, 1:-1]
            self._axes[place].add(inner[inner != 0].numpy())

    def evaluate(self, ends: list[Ends], batch: Any, *, most: int) -> None:
        """Add the ends of the rows of a batch of an evaluation.

        Args:
            ends: Those of its pass, of each axis.
            batch: The batch, as a DataLoader returned it.
            most: Number of rows after which evenly chosen ones are taken.
        """
        rows = series_of(batch)
        if rows is None or rows[0].numel() > MOST_ELEMENTS:
            return
        for place, steps in _steps_along_axes(rows[:: max(1, -(-len(rows) // most))]):
            found = _runs(steps)
            ends[place].first.update(found[:, 0].tolist())
            ends[place].last.update(found[:, -1].tolist())
            ends[place].steps.update(steps[:, 0].tolist())

    def share(self, ends: list[Ends]) -> float | None:
        """Return the share of the rows that begin, and that end, within rows of the training: the smaller of both.

        The largest of both axes; None if too few rows can be judged.

        Args:
            ends: Those of one pass, of each axis.
        """
        shares = [axis.share(each) for axis, each in zip(self._axes, ends, strict=True)]
        return max((share for share in shares if share is not None), default=None)


class _Axis:
    """The digests of runs along one axis of the rows."""

    def __init__(self) -> None:
        self._kept: Runs = np.zeros(0, np.int64)
        self._new: list[Runs] = []
        self._every = 1  # of the digests, those are kept that it divides

    def add(self, runs: Runs) -> None:
        chosen = self._chosen(runs)
        self._new.append(chosen)
        if sum(map(len, self._new)) > MOST_KEPT:
            self._merge()

    def share(self, ends: Ends) -> float | None:
        self._merge()
        if len(ends.steps) < FEWEST_RUNS or not len(self._kept):
            return None
        shares = []
        for counted in (ends.first, ends.last):
            alone = np.array([run for run, times in counted.items() if times == 1 and run], np.int64)
            some = self._chosen(alone)
            if len(some) < FEWEST_RUNS:
                return None
            shares.append(float(np.isin(some, self._kept).mean()))
        return min(shares)

    def _merge(self) -> None:
        self._kept, self._new = np.unique(np.concatenate([self._kept, *self._new])), []
        while len(self._kept) > MOST_KEPT:
            self._every *= 2
            self._kept = self._chosen(self._kept)

    def _chosen(self, runs: Runs) -> Runs:
        chosen: Runs = runs[runs % self._every == 0]
        return chosen


def series_of(batch: Any) -> torch.Tensor | None:
    """Return the largest tensor of numbers with rows of one or two axes; None without one.

    Args:
        batch: The batch; any structure of tensors.
    """
    tensors = [tensor for tensor in readable_tensors(batch) if tensor.is_floating_point() and 2 <= tensor.dim() <= 3]
    found = max(tensors, key=torch.Tensor.numel, default=None)
    return found if found is not None and len(found) > 1 else None


def _steps_along_axes(rows: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield digests of the steps along each axis of the rows that has enough: its number, (rows, steps)."""
    bits = rows.to(torch.float32).contiguous().view(torch.int32).to(torch.int64)
    for axis in range(1, bits.dim()):
        if len(bits) and bits.shape[axis] >= FEWEST_STEPS:
            steps = bits.transpose(axis, 1).reshape(len(bits), bits.shape[axis], -1)
            factors = torch.full((steps.shape[2],), _FACTOR).cumprod(0)
            yield axis - 1, _mixed((steps * factors).sum(2))


def _runs(steps: torch.Tensor) -> torch.Tensor:
    """Return digests of the runs of digests of steps, (rows, runs); 0 for a run in which a step comes twice."""
    count = steps.shape[1] - RUN + 1
    runs, differ = torch.zeros_like(steps[:, :count]), torch.ones_like(steps[:, :count], dtype=torch.bool)
    for place in range(RUN):
        one = steps[:, place : place + count]
        runs = _mixed(runs * _OTHER + one)
        for other in range(place):
            differ &= one != steps[:, other : other + count]
    return torch.where(differ, runs, 0)


def _mixed(digests: torch.Tensor) -> torch.Tensor:
    return (digests ^ (digests >> 29)) * _FACTOR
