"""passes-without-step: backward passes or batches that lead to no step of the optimizer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import (
    BACKWARD_PASSES,
    BATCHES_CLEARED,
    BATCHES_WITHOUT_STEP,
    PASSES_WITHOUT_STEP,
    SKIPPED_STEP,
)
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import PyTorchRule
from trackside.rules.rule import parameter
from trackside.situation.constants import ENOUGH_STEPS, NEARLY_ALL
from trackside.trial.window import Window

CLEARED = "batches of a step whose gradients were cleared before it"


@dataclass(frozen=True)
class PassesWithoutStep(PyTorchRule):
    """Backward passes lead to no step of the optimizer.

    Why it matters:
        Batches are read, losses and gradients are computed, and the weights stay as they are: a condition that is
        never true again, a gradient scaler that skips every step, a counter that has reached its end. The process
        looks busy, and all that it costs is lost. A clock of optimizer steps alone stands still then.

    How it decides:
        The hook counts backward passes since the newest optimizer step. Once they are 50, and ten times the most that
        a step had before, it notes their number, if they come from a line of the script with a backward pass of
        training; and again each time that the number has doubled.

        1. p is the noted number at the run's newest step. It fires where p is at least `passes`.
        2. A fused optimizer is called at a skipped step, too, and changes nothing. There p is the number of
           steps up to the newest, each of them skipped.
        3. A loop that skips a batch before its backward pass (`if not isfinite(loss): continue`) is seen where a
           DataLoader gives its batches. There p is the number of batches in a row that no backward pass used, in a
           training that used all but a few before.

        4. A loop that clears the gradients before each of several batches of one step uses those of the last batch
           alone. It fires where that was so in more than 90 % of the steps seen since it was first so, 30 at least. A
           method that changes weights in between, writes gradients of its own or stays with one batch is silent. Where
           no DataLoader draws, the rows that the graphs of three passes or more keep tell batches apart.

        Points 1 to 3 recover with the next step. Gradients computed elsewhere, as for adversarial examples after the
        training, are no training, and are not counted. Amazon's Debugger has no such rule; its clock is the step.

    Example:
        ```python
        from trackside.rules.program.passes_without_step import is_stuck

        assert is_stuck(passes=400, limit=50)
        assert not is_stuck(passes=8, limit=50)
        ```

    References:
        - PyTorch, `torch.amp.GradScaler`: steps are skipped while gradients are not finite.
    """

    rule_id = "passes-without-step"
    code = "TS207"
    watches = ("losses", "gradients")
    judges_waiting = True
    since = "0.1"
    likely_causes = (Cause.STEP_ORDER,)
    shows_its_cause = True
    what_to_do = (
        "Look at the condition around backward() and optimizer.step(), which is never true again.",
        "To accumulate gradients, clear them after the step, not before each backward pass.",
        "With a gradient scaler, print its scale: it skips each step with gradients that are not finite.",
    )

    passes: int = parameter(50, "backward passes, or batches, since the newest step", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with backward passes that led to no step."""
        noted = _noted(window, PASSES_WITHOUT_STEP)
        for column in window.statistic(SKIPPED_STEP, "mean", mode=None):
            noted[column.worker] = max(noted.get(column.worker, 0.0), float(skipped_in_a_row(column.values)))
        batches = _noted(window, BATCHES_WITHOUT_STEP)
        return [
            self._finding(window, worker, what, count)
            for what, counts in (("backward passes", noted), ("batches", batches))
            for worker, count in counts.items()
            if is_stuck(passes=count, limit=self.passes)
        ] + list(self._cleared(window))

    def _cleared(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with steps that use the last of several batches alone."""
        steps = {column.worker: column.steps for column in window.statistic(BACKWARD_PASSES, "mean", mode=None)}
        for column in window.statistic(BATCHES_CLEARED, "mean", mode=None):
            since = int(column.steps[0])
            seen = np.count_nonzero(steps.get(column.worker, column.steps) >= since)
            if len(column.steps) >= ENOUGH_STEPS and len(column.steps) > NEARLY_ALL * seen:
                wasted = float(np.median(column.values))
                yield finding_of(
                    window, "steps", CLEARED, wasted, above=0.0, since=since, worker=column.worker, place=_place(window)
                )

    def _finding(self, window: Window, worker: str, what: str, count: float) -> Finding:
        return finding_of(
            window,
            "steps",
            f"{what} since the newest step",
            count,
            above=float(self.passes - 1),
            worker=worker,
            place=_place(window),
        )


def _place(window: Window) -> str:
    """Return the line of the script's backward pass; "" if unknown."""
    facts = window.facts
    return facts.losses[0].backward_line if facts and facts.losses else ""


def _noted(window: Window, name: str) -> dict[str, float]:
    """Return the number that each worker noted at the newest step."""
    columns = window.statistic(name, "mean", mode=None)
    return {c.worker: float(c.values[-1]) for c in columns if int(c.steps[-1]) == window.step}


def skipped_in_a_row(flags: NDArray[np.float64]) -> int:
    """Return the number of skipped steps up to the newest.

    Args:
        flags: 1 for each skipped step, 0 for each that was made, oldest first; shape (n,).
    """
    made = np.flatnonzero(~(flags > 0))
    return len(flags) - (int(made[-1]) + 1 if made.size else 0)


def is_stuck(*, passes: float, limit: float) -> bool:
    """Return True if the number of backward passes since the newest step is at least the limit."""
    return passes >= limit
