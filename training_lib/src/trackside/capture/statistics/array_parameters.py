"""Weights and gradients as arrays: their norms and sizes for the always-on statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.capture.ground.values import Flags, Here, Numbers
from trackside.capture.statistics.always_on import AlwaysOn
from trackside.capture.statistics.budget import DEAR, NORMS
from trackside.capture.statistics.one_pass import LOOPS, Arrays
from trackside.capture.statistics.statistic_rows import DEAR_KINDS, DearReading, Reading, Watched

NOT_MEASURED = -1.0
_EXACT = 1e-30  # a sum of squares from here on is as exact in single precision


@dataclass
class OpenReading:
    """The numbers of an update before it is made.

    names         the parameters
    norms         the norms of their gradients; None if they are not taken
    has_gradient  by parameter; None: each has one
    total         the norm of all gradients
    counts        the numbers that are not finite, if any
    dear          the norms of the weights, then three sizes of each gradient; None if they are not taken
    """

    names: tuple[str, ...]
    norms: Numbers | None = None
    has_gradient: Flags | None = None
    total: float | None = None
    counts: dict[tuple[str, str], float] = field(default_factory=dict)
    dear: list[Sequence[float]] | None = None


class Parameters:
    """A reader of the parameters of a step. Steps with the same names share their tables."""

    def __init__(self) -> None:
        self._watched: dict[tuple[tuple[str, ...], tuple[str, ...]], Watched] = {}

    def reading(
        self,
        weights: Mapping[str, Any],
        gradients: Mapping[str, Any],
        updates: Mapping[str, Any],
        rates: Mapping[str, float],
        recorder: AlwaysOn,
    ) -> Reading:
        """Return the numbers of an update, as many as the recorder's budget allows.

        Args:
            weights: Each weight by its name, before the update.
            gradients: Its gradient.
            updates: The change that the update adds to it.
            rates: Learning rates by name.
            recorder: Decides the tiers of this step, and gets the time that was spent.
        """
        return self.after(self.before(weights, gradients, recorder), updates, rates, recorder)

    def before(self, weights: Mapping[str, Any], gradients: Mapping[str, Any], recorder: AlwaysOn) -> OpenReading:
        """Return the numbers that are known before the update. Nothing of the arrays is kept. See `reading`."""
        names = tuple(dict.fromkeys((*weights, *gradients)))
        open_reading = OpenReading(names)
        if not names or not recorder.takes_norms:
            return open_reading
        budget = recorder.budget
        started = budget.clock()
        found = [_flat(gradients.get(name)) for name in names]
        norms = open_reading.norms = np.array([_norm(gradient) for gradient in found])
        open_reading.has_gradient, open_reading.total = _flags(found), math.sqrt(norms @ norms)
        if not math.isfinite(open_reading.total):
            open_reading.counts = _counts(names, found)
        started = budget.spend(NORMS, started)
        if recorder.takes_dear:
            open_reading.dear = [[_norm_or_not(weights.get(name)) for name in names], *_sizes(found)]
            budget.spend(DEAR, started)
        return open_reading

    def after(
        self, open_reading: OpenReading, updates: Mapping[str, Any], rates: Mapping[str, float], recorder: AlwaysOn
    ) -> Reading:
        """Return the numbers of an update that has been made. See `reading`."""
        names, has_gradient = open_reading.names, open_reading.has_gradient
        key = names, tuple(rates)
        watched = self._watched.get(key)
        if watched is None:
            watched = self._watched[key] = Watched(*key)
        reading = Reading(watched, [float(rate) for rate in rates.values()])
        if open_reading.norms is None:
            return reading
        reading.norms, reading.has_gradient = Here(open_reading.norms), has_gradient
        reading.total, reading.counts = open_reading.total, open_reading.counts
        if open_reading.dear is not None:
            started = recorder.budget.clock()
            weights, *sizes = open_reading.dear
            rows = [weights, [_norm_or_not(updates.get(name)) for name in names], *sizes]
            values = np.array(rows, np.float64).reshape(len(DEAR_KINDS) * len(names))
            reading.dear = DearReading(0, len(names), Here(values), has_gradient)
            recorder.budget.spend(DEAR, started)
        return reading


def _flat(value: Any) -> NDArray[Any] | None:
    """Return the numbers as one row: without a copy where they lie one after another as floats."""
    if value is None:
        return None
    array = np.asarray(value)
    return (array if array.dtype == np.float32 else array.astype(np.float64, copy=False)).reshape(-1)


def _flags(found: Sequence[NDArray[Any] | None]) -> Flags | None:
    flags = np.array([gradient is not None for gradient in found])
    return None if flags.all() else flags


def _norm(values: NDArray[Any] | None) -> float:
    if values is None:
        return 0.0
    if values.dtype == np.float32:
        with np.errstate(over="ignore", invalid="ignore"):
            square = float(values @ values)
        if _EXACT < square < math.inf:
            return math.sqrt(square)
        values = values.astype(np.float64)
    return math.sqrt(float(values @ values))


def _norm_or_not(value: Any) -> float:
    return NOT_MEASURED if value is None else _norm(_flat(value))


def _sizes(found: Sequence[NDArray[Any] | None]) -> Sequence[Sequence[float]]:
    """Return mean |g| of each gradient, its share of zeros, and max |g|."""
    singles = [each for each in found if each is not None and each.dtype == np.float32 and each.flags.c_contiguous]
    if LOOPS is None or len(singles) < len(found) or not all(each.size for each in singles):
        return list(zip(*(_size(gradient) for gradient in found), strict=True))
    counts = np.array([each.size for each in singles])
    addresses = [each.__array_interface__["data"][0] for each in singles]
    _, sizes, _, least, largest, zeros = LOOPS.sums(Arrays(counts.tolist()), addresses)
    return [sizes / counts, zeros / counts, np.maximum(largest, -least)]


def _size(gradient: NDArray[Any] | None) -> tuple[float, float, float]:
    """Return mean |g|, share of zeros, and max |g|."""
    if gradient is None or not gradient.size:
        return 0.0, 0.0, 0.0
    sizes = np.abs(gradient)
    return float(sizes.mean(dtype=np.float64)), float(np.mean(sizes == 0)), float(sizes.max())


def _counts(names: Sequence[str], found: Sequence[NDArray[Any] | None]) -> dict[tuple[str, str], float]:
    """Return the number of elements of each gradient that are not finite, and how many of those are NaN."""
    counts: dict[tuple[str, str], float] = {}
    for name, gradient in zip(names, found, strict=True):
        broken = 0 if gradient is None else int(np.sum(~np.isfinite(gradient)))
        if gradient is not None and broken:
            counts[f"gradient/{name}", "nonfinite_count"] = broken
            counts[f"gradient/{name}", "nan_count"] = int(np.sum(np.isnan(gradient)))
    return counts
