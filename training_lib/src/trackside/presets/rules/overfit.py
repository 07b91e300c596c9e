"""overfit, as Amazon documents it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.advice import Advice, Concerns
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import EVERY_COLLECTION, selected
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class DocumentedOverfit(Rule):
    """The validation loss lies above the training loss.

    Documented: fires where (mean validation loss - mean training loss) / mean training loss > `ratio_threshold` for
    `patience` steps, from `start_step` on. Over what the means are taken is not documented: here, at each saved step of
    mode EVAL, over the validation losses since the last training step, and over the training losses between that
    evaluation and the one before. `patience` counts evaluations, one after the other. Divided is by the size of the
    training loss, so that losses below zero are judged too. Training steps alone are judged as nothing.
    """

    rule_id = "overfit"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = (CollectionRequest("losses", Schedule(100), mode_schedules=(("EVAL", Schedule(10)),)),)
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.OVERFITTING, Cause.WRONG_LABELS)
    what_to_do = (
        Advice("Stop at the lowest validation loss; use more data, dropout or weight decay.", Concerns.LOOPS),
    )

    tensor_regex: str = parameter("", "regexes of losses, separated by commas; empty: all losses")
    start_step: int = parameter(0, "step from which on it is judged", minimum=0)
    patience: int = parameter(1, "evaluations in a row that must be above it", minimum=1)  # type: ignore[misc]  # Amazon's name
    ratio_threshold: float = parameter(0.1, "excess over the training loss above which it fires", minimum=0)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss and worker."""
        return [found for pair in self._pairs(window) if (found := self._judge(window, *pair)) is not None]

    def lacks(self, window: Window) -> str:
        """Name the missing input: losses of both modes."""
        return "" if self._pairs(window) else "losses of the modes TRAIN and EVAL"

    def _pairs(self, window: Window) -> list[tuple[Column, Column]]:
        """Return (validation losses, training losses) of each loss and worker with both and a validation now."""
        if window.mode != "EVAL" or window.step < self.start_step:
            return []
        names = selected(window, tensor_regex=self.tensor_regex, default=("losses",))
        trained = {(c.tensor, c.worker): c for name in names for c in window.statistic(name, "mean", mode="TRAIN")}
        evaluated = [c for name in names for c in window.statistic(name, "mean") if c.steps[-1] == window.step]
        return [(c, trained[c.tensor, c.worker]) for c in evaluated if (c.tensor, c.worker) in trained]

    def _judge(self, window: Window, evaluated: Column, trained: Column) -> Finding | None:
        since = evaluated.steps >= self.start_step
        steps, ratios = excesses(evaluated.steps[since], evaluated.values[since], trained.steps, trained.values)
        newest = ratios[-self.patience :]
        if len(newest) < self.patience or not (newest > self.ratio_threshold).all():
            return None
        return finding_of(
            window,
            evaluated,
            "excess of the validation loss over the training loss",
            float(ratios[-1]),
            above=self.ratio_threshold,
            since=int(steps[-self.patience]),
        )


def excesses(
    steps: NDArray[np.int64],
    losses: NDArray[np.float64],
    trained_steps: NDArray[np.int64],
    trained_losses: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (first step, (V - T) / |T|) of each evaluation that follows a training step; shapes (evaluations,).

    V is the mean validation loss of the evaluation, T the mean training loss since the evaluation before. NaN where T
    is 0.
    """
    before = np.searchsorted(trained_steps, steps)
    ends, starts = np.unique(before, return_index=True)
    firsts, ratios = [], []
    for end, of_evaluation, start in zip(ends.tolist(), np.split(losses, starts[1:]), starts.tolist(), strict=True):
        if end == 0:
            continue
        earlier = ends[ends < end]
        trained = float(trained_losses[int(earlier[-1]) if earlier.size else 0 : end].mean())
        firsts.append(int(steps[start]))
        ratios.append((float(of_evaluation.mean()) - trained) / abs(trained) if trained else np.nan)
    return np.array(firsts, np.int64), np.array(ratios, np.float64)
