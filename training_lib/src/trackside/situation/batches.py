"""The batches of a DataLoader's passes, and the seeds of their order. Pure functions of a window."""

from __future__ import annotations

from trackside.contracts.run.recorded_names import (
    BATCH_NUMBER,
    EPOCH,
    ORDER_SEED_HIGH,
    ORDER_SEED_IS_FIRST,
    ORDER_SEED_LOW,
    RECORDED,
)
from trackside.situation.constants import SHORT_STRETCH
from trackside.trial.window import Window


def batches_near(window: Window, since: int, *, worker: str) -> dict[str, float]:
    """Return the epoch and the numbers of the batches around the begin of a spike; nothing if they are unknown.

    They are those of the step before and of the first few, of one epoch: numbers begin anew with each.
    """
    numbers, epochs = (
        next((c for c in window.statistic(name, "mean", mode=None) if c.worker == worker), None)
        for name in (BATCH_NUMBER, EPOCH)
    )
    if numbers is None or epochs is None or len(numbers.values) != len(epochs.values):
        return {}
    near = (numbers.steps >= since - 1) & (numbers.steps <= since + SHORT_STRETCH)
    if not near.any():
        return {}
    epoch = float(epochs.values[near][-1])
    found = numbers.values[near & (epochs.values == epoch)]
    numbered = {"epoch": epoch, "first_batch": float(found.min()), "last_batch": float(found.max())}
    return numbered | _order(window, since, worker=worker)


def _order(window: Window, since: int, *, worker: str) -> dict[str, float]:
    """Return the seed of the order of the pass that a step belongs to, in two halves; nothing if it is unknown."""
    found: dict[str, float] = {}
    for name in (ORDER_SEED_HIGH, ORDER_SEED_LOW, ORDER_SEED_IS_FIRST):
        column = next((c for c in window.statistic(name, "mean", mode=None) if c.worker == worker), None)
        if column is not None and column.steps[0] <= since:
            found[name.removeprefix(RECORDED)] = float(column.values[column.steps <= since][-1])
    return found
