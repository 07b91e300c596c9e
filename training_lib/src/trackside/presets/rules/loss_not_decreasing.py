"""loss-not-decreasing, as Amazon documents it."""

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
from trackside.rules.selection import selected
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class DocumentedLossNotDecreasing(Rule):
    """A loss did not decrease by the required percentage between two steps.

    Documented: at a step s the loss is compared with that of the newest saved step <= s - `num_steps`; then the next
    step to be looked at is the first saved one >= s + `num_steps` (with values saved at every third step and num_steps
    10: 9, 21, 33, ...). Fires where the decrease is below `diff_percent` percent of the earlier value, or where the
    loss has been increasing by more than `increase_threshold_percent` percent. How the two combine is not documented:
    here either fires. `mode`: the table says GLOBAL, the text that EVAL, then TRAIN, then GLOBAL is taken when none is
    given; the text is followed.
    """

    rule_id = "loss-not-decreasing"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = ("losses",)
    needs = (CollectionRequest("losses", Schedule(500)),)
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.LEARNING_RATE_TOO_LOW)
    what_to_do = ("If the loss rises, lower the learning rate; if it never moved, raise it.",)

    collection_names: str = parameter("", "collections of losses, separated by commas")
    tensor_regex: str = parameter("", "regexes of losses, separated by commas")
    use_losses_collection: bool = parameter(True, "true: look at the collection losses too")
    num_steps: int = parameter(10, "least distance in steps between two losses that are compared", minimum=1)
    diff_percent: float = parameter(0.1, "required decrease in percent", minimum=0, maximum=100)
    increase_threshold_percent: float = parameter(5.0, "increase in percent that is allowed", minimum=0, maximum=100)
    mode: str = parameter("", "TRAIN, EVAL or GLOBAL; empty: the first of EVAL, TRAIN and GLOBAL that was saved")

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss."""
        collections = f"{self.collection_names},losses" if self.use_losses_collection else self.collection_names
        names = selected(window, collection_names=collections, tensor_regex=self.tensor_regex)
        return [found for name in names for c in self._columns(window, name) if (found := self._judge(window, c))]

    def _columns(self, window: Window, name: str) -> tuple[Column, ...]:
        for mode in (self.mode.upper(),) if self.mode else ("EVAL", "TRAIN", "GLOBAL"):
            if columns := window.statistic(name, "mean", mode=mode):
                return columns
        return ()

    def _judge(self, window: Window, column: Column) -> Finding | None:
        pair = compared(column.steps, num_steps=self.num_steps)
        if pair is None or column.steps[pair[1]] != window.step:
            return None
        before, now = float(column.values[pair[0]]), float(column.values[pair[1]])
        decrease = 100 * (before - now) / abs(before) if before else 0.0
        if not decrease < self.diff_percent:
            return None
        is_increase = decrease < -self.increase_threshold_percent
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=int(column.steps[pair[0]]),
            measure="rise of the loss in %" if is_increase else "decrease of the loss in %",
            observed=-decrease if is_increase else decrease,
            relation=">" if is_increase else "<",
            threshold=self.increase_threshold_percent if is_increase else self.diff_percent,
            series=column.series,
        )


def compared(steps: NDArray[np.int64], *, num_steps: int) -> tuple[int, int] | None:
    """Return the indices of the two steps to compare at the newest step; None if it is not due."""
    checked: int | None = None
    pair = None
    for place, step in enumerate(steps.tolist()):
        if checked is not None and step < checked + num_steps:
            continue
        earlier = int(np.searchsorted(steps, step - num_steps, side="right")) - 1
        if earlier >= 0:
            checked, pair = step, (earlier, place)
    return pair if pair is not None and pair[1] == len(steps) - 1 else None
