"""The losses of a run in a list, and beside its verdicts: the last value of each, and a curve of a few points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trackside.contracts.run.last_losses import MOST_POINTS, LastLoss, LastLosses, Point
from trackside.situation.losses.losses import parts_of_sums, whole_losses
from trackside.trial.tensors.buckets import bucketed, edges_of
from trackside.trial.window import Column, Window


def last_losses(window: Window) -> LastLosses:
    """Return the losses of a run.

    Args:
        window: The run up to its last step.
    """
    columns = [c for name in window.tensors("losses") for c in window.statistic(name, "mean", mode="EVAL")]
    parts = parts_of_sums(window.facts, [column.tensor for column in columns])
    return LastLosses(_first(whole_losses(window)), _first([one for one in columns if one.tensor not in parts]))


def _first(columns: Sequence[Column]) -> LastLoss | None:
    """Return the first loss of the first process with any."""
    column = min(columns, key=lambda one: one.worker, default=None)
    return LastLoss(column.tensor, float(column.values[-1]), tuple(_points(column))) if column else None


def _points(column: Column) -> Iterator[Point]:
    edges = edges_of(int(column.steps[0]), int(column.steps[-1]), MOST_POINTS)
    found = bucketed(column.steps, column.values, edges)
    rows = (found.first, found.last, found.low, found.mean, found.high, found.count, found.is_broken)
    yield from zip(*(row.astype(float).tolist() for row in rows), strict=True)
