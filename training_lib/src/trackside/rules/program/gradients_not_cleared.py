"""gradients-not-cleared: each step adds its gradients to those of all steps before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import GRADIENTS_KEPT
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class GradientsNotCleared(PyTorchRule):
    """Gradients are not cleared between optimizer steps.

    Why it matters:
        PyTorch adds each gradient to what is there. A loop without `optimizer.zero_grad()` steps along the sum of all
        gradients since the start: the loss falls at first, and then swings or diverges, and nothing is ever raised.

    How it decides:
        The hook notes at the first `backward` after each optimizer step whether the gradients of that step still stand
        as they were: not set to None, not replaced, not written to. Accumulating over several `backward` calls within
        one step is right, and is not counted.

        1. Let k be the share of the newest `steps` optimizer steps, all of one worker, after which the gradients stood.
        2. It fires where k is at least `share`, in a run of at least `steps` steps.

        3. It also fires, as a warning, where the newest steps cleared gradients at every n-th step exactly, `periods`
           times in a row: the steps between used the sum of several batches, one more each time.

        A program that forgets to clear does so at every step: k is 1. One that clears now and then, at no fixed
        distance, is silent.

        It needs neighbouring steps: each of these numbers compares a step with the one before. A run that is watched in
        bursts has them within a burst, so that a finding needs several bursts.

    Example:
        ```python
        import numpy as np
        from trackside.rules.program.gradients_not_cleared import clearing_period, kept_share

        assert kept_share(np.ones(20), steps=10) == 1.0
        assert kept_share(np.zeros(20), steps=10) == 0.0
        assert kept_share(np.ones(5), steps=10) is None  # too early to decide
        assert clearing_period(np.array([0, 1, 1, 0, 1, 1, 0, 1, 1, 0]), periods=3) == 3
        ```

    References:
        - PyTorch, "Zeroing out gradients in PyTorch" (recipe): gradients accumulate in `.grad`.
    """

    rule_id = "gradients-not-cleared"
    code = "TS203"
    watches = ("losses", "gradients")
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.MISSING_ZERO_GRAD,)
    shows_its_cause = True
    what_to_do = (
        "Call optimizer.zero_grad() in each step, before backward.",
        "If gradients are accumulated on purpose, clear them after each optimizer.step().",
    )

    steps: int = parameter(10, "newest steps that are looked at", minimum=2)
    share: float = parameter(
        0.9, "share of them that must have kept the gradients of the step before", minimum=0, maximum=1
    )
    periods: int = parameter(8, "times in a row that gradients were cleared at the same distance", minimum=2)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with gradients kept between steps."""
        columns = window.statistic(GRADIENTS_KEPT, "mean", mode=None)
        return [found for column in columns if (found := self._judge(window, column)) is not None]

    def lacks(self, window: Window) -> str:
        """Name the missing input: rows of enough steps."""
        columns = window.statistic(GRADIENTS_KEPT, "mean", mode=None)
        if any(len(column.values) >= self.steps for column in columns):
            return ""
        return f"{self.steps} steps with always-on statistics"

    def _judge(self, window: Window, column: Column) -> Finding | None:
        share = kept_share(column.values, steps=self.steps)
        if share is None or not share > 0:
            return None
        period = clearing_period(column.values, periods=self.periods) if share < self.share else None
        if share < self.share and period is None:
            return None
        facts = window.facts
        return finding_of(
            window,
            GRADIENTS_KEPT,
            "share of steps that began with the gradients of the step before" if period is None else _PERIODIC,
            share if period is None else float(period),
            above=min(self.share, float(np.nextafter(share, -1))) if period is None else 1.0,
            since=int(column.steps[_begin(column.values, period, self.periods)]),
            worker=column.worker,
            series=column.series,
            place=facts.losses[0].backward_line if facts and facts.losses else "",
            grade=None if period is None else Severity.WARNING,
        )


_PERIODIC = "steps from one clearing of the gradients to the next"


def _begin(kept: NDArray[np.float64], period: int | None, periods: int) -> int:
    """Return the place of the first step that the finding is about."""
    if period is not None:
        return int(np.flatnonzero(kept == 0)[-periods - 1]) + 1
    cleared = np.flatnonzero(kept[:-1] == 0)
    return int(cleared[-1]) + 1 if cleared.size else 0


def clearing_period(kept: NDArray[np.float64], *, periods: int) -> int | None:
    """Return the number of steps from one clearing to the next, if it was the same `periods` times; None if not.

    Args:
        kept: 1 for each step that kept the gradients of the step before, else 0; shape (n,).
        periods: Number of equal distances.
    """
    cleared = np.flatnonzero(kept == 0)[-periods - 1 :]
    distances = np.diff(cleared)
    if len(distances) < periods or distances[0] < 2 or not (distances == distances[0]).all():
        return None
    period = int(distances[0])
    return period if len(kept) - 1 - cleared[-1] < period else None


def kept_share(kept: NDArray[np.float64], *, steps: int) -> float | None:
    """Return the share of ones in the newest `steps` values (1: gradients kept, 0: cleared); None with fewer values."""
    return float(np.mean(kept[-steps:])) if len(kept) >= steps else None
