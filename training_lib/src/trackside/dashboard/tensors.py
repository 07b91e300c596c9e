"""One tensor over the steps of a run: its statistics, in buckets that keep the extremes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from trackside.contracts.errors import ConfigurationError
from trackside.report.gathered import within
from trackside.report.line_chart import MOST_BUCKETS
from trackside.trial.buckets import Buckets, bucketed, edges_of
from trackside.trial.trial import Trial
from trackside.trial.window import Column

MOST_WORKERS = 8
# In the order in which they are read: how large, how spread, how broken, how fast it moves.
SHOWN = ("mean", "l2", "std", "min", "max", "zero_share", "nonfinite_count", "update_ratio", "max_norm")
_MOSTLY_ZERO = {"zero_share", "nonfinite_count", "std"}  # not shown where they are 0 throughout


@dataclass(frozen=True, eq=False)
class TensorCurves:
    """The statistics of a tensor over `steps` (the first and the last): title and numbers of each, in each process."""

    steps: tuple[int, int]
    curves: tuple[tuple[str, Buckets], ...]


def tensor_curves(trial: Trial, name: str, window: tuple[int | None, int | None]) -> TensorCurves | None:
    """Return the curves of a tensor within a window; None without a number. Errors: those of the store."""
    columns = dict(_columns(trial, name))
    ends = [(int(column.steps[0]), int(column.steps[-1])) for column in columns.values()]
    steps = within((min(first for first, _ in ends), max(last for _, last in ends)), window) if ends else None
    if steps is None:
        return None
    return TensorCurves(steps, tuple(_curves(columns, steps)))


def _columns(trial: Trial, name: str) -> Iterator[tuple[str, Column]]:
    several = len(trial.workers) > 1
    for statistic in SHOWN:
        try:
            found = trial.columns(name, statistic, last_step=trial.recorded_through, mode=None)
        except ConfigurationError:  # not recorded by this run
            continue
        for column in found[:MOST_WORKERS]:
            if len(column.steps) and not (statistic in _MOSTLY_ZERO and not np.any(column.values)):
                yield f"{statistic}, {column.worker}" if several else statistic, column


def _curves(columns: Mapping[str, Column], steps: tuple[int, int]) -> Iterator[tuple[str, Buckets]]:
    edges = edges_of(*steps, MOST_BUCKETS)
    for title, column in columns.items():
        first, end = np.searchsorted(column.steps, (steps[0], steps[1] + 1))
        if first < end:
            yield title, bucketed(column.steps[first:end], column.values[first:end], edges)
