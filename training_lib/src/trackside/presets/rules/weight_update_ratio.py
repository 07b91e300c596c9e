"""weight-update-ratio, as Amazon documents it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import SavedValue, values_at_step
from trackside.trial.window import Window


@dataclass(frozen=True)
class DocumentedWeightUpdateRatio(Rule):
    """A weight changed by far too much or too little between two steps at which it was saved.

    Documented: the ratio of updates to weights is compared with `large_threshold` and `small_threshold`. By what it is
    measured is not documented: here mean |w - w'| / (mean |w'| + `epsilon`), with w' the weight at the earlier step.
    That is the saved step before, or, with `num_steps`, the newest saved one that lies at least so many steps back. A
    weight that is frozen has the ratio 0 and would always fire; those that the hook recorded as frozen
    (requires_grad is False) are left out, and in runs that do not say so they fire.
    """

    rule_id = "weight-update-ratio"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = ("weights",)
    needs = (CollectionRequest("weights", Schedule(500)),)
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.LEARNING_RATE_TOO_LOW)
    what_to_do = ("Lower the learning rate where updates are too large, raise it where they are too small.",)

    num_steps: int = parameter(0, "least distance in steps to the earlier weight; 0: the saved step before", minimum=0)
    large_threshold: float = parameter(10.0, "ratio above which it fires", minimum=0)
    small_threshold: float = parameter(1e-8, "ratio below which it fires", minimum=0)
    epsilon: float = parameter(1e-9, "added to the size of the earlier weight, against a division by 0", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per weight and worker."""
        return [found for saved in self._trained(window) if (found := self._judge(window, saved)) is not None]

    def lacks(self, window: Window) -> str:
        """Return a clause until the same weight was saved at two steps."""
        has_two = any(self._earlier(window, saved) is not None for saved in self._trained(window))
        return "" if has_two else "whole weights, saved at two steps"

    def _trained(self, window: Window) -> Iterable[SavedValue]:
        facts = window.facts
        frozen = {held.name for held in facts.parameters if not held.requires_grad} if facts else set()
        return values_at_step(window, [name for name in window.tensors("weights") if name not in frozen])

    def _earlier(self, window: Window, saved: SavedValue) -> tuple[int, NDArray[np.generic]] | None:
        """Return the earlier (step, weight) to compare with."""
        own = [c for c in window.statistic(saved.tensor, "mean") if c.worker == saved.worker]
        steps = own[0].steps[:-1] if own else np.empty(0, np.int64)
        steps = steps[steps <= window.step - self.num_steps]
        if not steps.size:
            return None
        try:
            step = int(steps[-1])
            return step, window.value(saved.tensor, worker=saved.worker, step=step)
        except TensorNotSavedError:  # statistics of it alone
            return None

    def _judge(self, window: Window, saved: SavedValue) -> Finding | None:
        before = self._earlier(window, saved)
        ratio = update_ratio(before[1], saved.value, epsilon=self.epsilon) if before else None
        if before is None or ratio is None:
            return None
        if not (ratio > self.large_threshold or ratio < self.small_threshold):
            return None
        is_large = ratio > self.large_threshold
        return Finding(
            subject=saved.tensor,
            worker=saved.worker,
            step=window.step,
            since_step=before[0],
            measure="update of the weight over its size",
            observed=ratio,
            relation=">" if is_large else "<",
            threshold=self.large_threshold if is_large else self.small_threshold,
        )


def update_ratio(before: NDArray[np.generic], after: NDArray[np.generic], *, epsilon: float) -> float | None:
    """Return mean |after - before| over mean |before| plus epsilon; None for different shapes, or a divisor of 0."""
    if before.shape != after.shape or not before.size:
        return None
    old, new = before.astype(np.float64), after.astype(np.float64)
    size = float(np.abs(old).mean()) + epsilon
    return float(np.abs(new - old).mean()) / size if size > 0 else None
