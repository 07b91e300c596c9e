"""Reductions of many tensors at once, from a few sums: computed beside the training instead of copying the tensors.

`reduction.reduced` takes one tensor after another, and computes any reduction of it. Here all tensors of an optimizer
come together, each by its moments, and a reduction of all of them is one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.capture.steps.reduction import record_name

Numbers = NDArray[np.float64]

# In single precision the squares of smaller or larger numbers are lost.
_SMALLEST_SQUARED, _LARGEST_SQUARED = 1e-12, 1e15


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of n tensors, as arrays of shape (n,).

    - `count`: number of values
    - `total`, `abs_total`: Σx, Σ|x|
    - `spread`: Σ(x - mean)²
    - `smallest`, `largest`: min x, max x
    """

    count: Numbers
    total: Numbers
    abs_total: Numbers
    spread: Numbers
    smallest: Numbers
    largest: Numbers

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """False for a tensor that is not finite, or has squares outside the range of single precision. Shape (n,)."""
        sizes = self._sizes()
        is_held: NDArray[np.bool_] = (sizes < _LARGEST_SQUARED) & ((sizes > _SMALLEST_SQUARED) | (sizes == 0))
        return is_held  # a NaN is neither

    def at(self, places: NDArray[np.intp]) -> Moments:
        """Return the moments of some of the tensors."""
        rows = (self.count, self.total, self.abs_total, self.spread, self.smallest, self.largest)
        return Moments(*(row[places] for row in rows))

    def _variance(self) -> Numbers:
        return self.spread / np.where(self.count > 1, self.count - 1, np.nan)  # of one value NaN, as torch has it

    def _sizes(self) -> Numbers:
        return np.maximum(self.largest, -self.smallest)

    def _l2(self) -> Numbers:
        return np.sqrt(self.spread + self.total * self.total / self.count)


# By token, what makes a reduction of each tensor, shape (n,), of their moments.
FROM_MOMENTS: Mapping[str, Callable[[Moments], Numbers]] = {
    "min": lambda moments: moments.smallest,
    "max": lambda moments: moments.largest,
    "abs_max": Moments._sizes,
    "sum": lambda moments: moments.total,
    "mean": lambda moments: moments.total / moments.count,
    "abs_sum": lambda moments: moments.abs_total,
    "abs_mean": lambda moments: moments.abs_total / moments.count,
    "l1_norm": lambda moments: moments.abs_total,
    "abs_l1_norm": lambda moments: moments.abs_total,
    "l2_norm": Moments._l2,
    "abs_l2_norm": Moments._l2,
    "variance": Moments._variance,
    "std": lambda moments: np.sqrt(moments._variance()),
}


class ReducedLayout:
    """The layout of a row of values: reductions of tensors, the same from step to step.

    - `tensors`: the pairs of a name and its tokens, all of `FROM_MOMENTS`
    - `names`: names of the tensors
    - `record_names`: names under which the values are saved
    - `cells`: of each value, the place of its tensor and the token
    - `collections`: those that only an adapter knows the tensors to be in
    """

    collections: frozenset[str] = frozenset()

    def __init__(self, tensors: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        self.tensors = tuple(tensors)
        self.names = frozenset(name for name, _ in tensors)
        self._tokens = tuple(dict.fromkeys(token for _, tokens in tensors for token in tokens))
        # One row for each token: where all tensors have the same ones, the values are the table as it is.
        self.cells = tuple((place, token) for token in self._tokens for place in _places(tensors, token))
        self.record_names = tuple(record_name(tensors[place][0], token) for place, token in self.cells)
        is_full = len(self.cells) == len(self._tokens) * len(tensors)
        rows = {token: row * len(tensors) for row, token in enumerate(self._tokens)}
        self._picked = None if is_full else np.array([rows[token] + place for place, token in self.cells], np.intp)

    def values(self, moments: Moments) -> NDArray[np.float32]:
        """Return the values of all records, from moments in the order of the tensors."""
        table = np.empty((len(self._tokens), len(moments.count)), np.float32)
        with np.errstate(all="ignore"):  # what is beyond single precision is infinite
            for row, token in zip(table, self._tokens, strict=True):
                row[:] = FROM_MOMENTS[token](moments)
        values = table.reshape(-1)
        return values if self._picked is None else values[self._picked]


def _places(tensors: Sequence[tuple[str, tuple[str, ...]]], token: str) -> list[int]:
    return [place for place, (_, tokens) in enumerate(tensors) if token in tokens]
