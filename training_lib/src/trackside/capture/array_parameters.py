"""Weights and gradients as arrays: their norms and sizes for the always-on statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trackside.capture.always_on import AlwaysOn
from trackside.capture.budget import DEAR, NORMS
from trackside.capture.statistic_rows import DEAR_KINDS, DearReading, Flags, Here, Numbers, Reading, Watched

NOT_MEASURED = -1.0


class Parameters:
    """A reader of the parameters of a step. Steps with the same names share their tables."""

    def __init__(self) -> None:
        self._watched: dict[Any, Watched] = {}

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
        names = tuple(dict.fromkeys((*weights, *gradients)))
        watched = Watched(names, tuple(rates))
        watched = self._watched.setdefault(watched.identity, watched)
        reading = Reading(watched, [float(rate) for rate in rates.values()])
        if not names or not recorder.takes_norms:
            return reading
        budget = recorder.budget
        started = budget.clock()
        found = [_flat(gradients.get(name)) for name in names]
        norms = np.array([_norm(gradient) for gradient in found])
        reading.norms, reading.has_gradient = Here(norms), _flags(found)
        reading.total = math.sqrt(norms @ norms)
        if not math.isfinite(reading.total):
            reading.counts = _counts(names, found)
        started = budget.spend(NORMS, started)
        if recorder.takes_dear:
            measured = [_size(gradient) for gradient in found]
            rows = [[_norm_or_not(weights.get(n)) for n in names], [_norm_or_not(updates.get(n)) for n in names]]
            values = np.array([*rows, *zip(*measured, strict=True)]).reshape(len(DEAR_KINDS) * len(names))
            reading.dear = DearReading(0, len(names), Here(values), reading.has_gradient)
            budget.spend(DEAR, started)
        return reading


def _flat(value: Any) -> Numbers | None:
    return None if value is None else np.asarray(value, np.float64).reshape(-1)


def _flags(found: Sequence[Numbers | None]) -> Flags | None:
    flags = np.array([gradient is not None for gradient in found])
    return None if flags.all() else flags


def _norm(values: Numbers | None) -> float:
    return 0.0 if values is None else math.sqrt(float(values @ values))


def _norm_or_not(value: Any) -> float:
    return NOT_MEASURED if value is None else _norm(_flat(value))


def _size(gradient: Numbers | None) -> tuple[float, float, float]:
    """Return mean |g|, share of zeros, and max |g|."""
    if gradient is None or not gradient.size:
        return 0.0, 0.0, 0.0
    sizes = np.abs(gradient)
    return float(sizes.mean()), float(np.mean(sizes == 0)), float(sizes.max())


def _counts(names: Sequence[str], found: Sequence[Numbers | None]) -> dict[tuple[str, str], float]:
    """Return the number of elements of each gradient that are not finite, and how many of those are NaN."""
    counts: dict[tuple[str, str], float] = {}
    for name, gradient in zip(names, found, strict=True):
        broken = 0 if gradient is None else int(np.sum(~np.isfinite(gradient)))
        if gradient is not None and broken:
            counts[f"gradient/{name}", "nonfinite_count"] = broken
            counts[f"gradient/{name}", "nan_count"] = int(np.sum(np.isnan(gradient)))
    return counts
