"""overtraining, as Amazon documents it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class DocumentedOvertraining(Rule):
    """A loss has not improved for some steps.

    Documented: `patience_train` and `patience_validation` are the steps to wait before the loss of that mode counts as
    no longer improving, by more than `delta`, which is absolute. Whether both must have stopped is not documented: here
    either fires, as each has its own patience; and steps are those at which the loss was saved. A loss of modes that
    the script does not set (GLOBAL) counts as a training loss. What is small from the start, or slow, fires.
    """

    rule_id = "overtraining"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = ("losses",)
    needs = (CollectionRequest("losses", Schedule(500)),)
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.CONVERGED, Cause.OVERFITTING)
    what_to_do = ("Stop, and keep the checkpoint of the lowest validation loss.",)

    patience_train: int = parameter(5, "saved steps without a better training loss", minimum=1)
    patience_validation: int = parameter(10, "saved steps without a better validation loss", minimum=1)
    delta: float = parameter(0.01, "least decrease of the loss that is an improvement", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss and worker."""
        if window.mode == "PREDICT":
            return []
        patience = self.patience_validation if window.mode == "EVAL" else self.patience_train
        columns = window.columns("losses", "mean")
        judged = [self._judge(c, window.step, patience) for c in columns if c.steps[-1] == window.step]
        return [found for found in judged if found is not None]

    def _judge(self, column: Column, step: int, patience: int) -> Finding | None:
        best = best_before(column.values, patience=patience, delta=self.delta)
        if best is None:
            return None
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=step,
            since_step=int(column.steps[best]),
            measure="saved steps without a better loss",
            observed=float(len(column.values) - 1 - best),
            relation=">",
            threshold=float(patience - 1),
            statistics={"best": float(column.values[best])},
            series=column.series,
        )


def best_before(losses: NDArray[np.float64], *, patience: int, delta: float) -> int | None:
    """Return the index of the best loss before the newest `patience`; None if one of these is better by over `delta`.

    `losses`: shape (n,), oldest first. Losses that are not finite are no improvement.
    """
    earlier = np.where(np.isfinite(losses[:-patience]), losses[:-patience], np.inf)
    if not earlier.size or not np.isfinite(earlier).any():
        return None
    newest = losses[-patience:]
    best = int(np.argmin(earlier))
    return None if (newest[np.isfinite(newest)] < earlier[best] - delta).any() else best
