"""loss-not-decreasing: the training does not learn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_FEWEST_LOSSES = 10  # in a window, however seldom losses are saved
_LEARNED = 0.1  # a run that has lost this share of its first loss learns; it may rest on a plateau
_TRAINING_MODES = ("TRAIN", "GLOBAL")

Losses = NDArray[np.float64]


@dataclass(frozen=True)
class LossNotDecreasing(Rule):
    """The loss is stuck near its first value, or rises.

    Why it matters:
        A job that does not learn costs as much as one that does. Loss curves are noisy, so this is often seen hours
        late, when somebody looks at the chart.

    How it decides:
        At each step at which a training loss was saved (mode TRAIN, or GLOBAL where the script sets none), for each
        loss and worker, with the finite losses saved so far:

        1. A window holds the losses of `num_steps` steps, but at least ten. L0 is the first loss, level the median of
           the newest window.
        2. Rising, as soon as there is one window: let lowest be the smallest of L0 and the medians of all windows so
           far, one after the other. The loss rises when even the smallest loss of the newest window is more than
           `increase_threshold_percent` above lowest, and level > 0.9 x L0: nearly all that was learned is lost.
        3. Stuck, as soon as there are two windows: the run has learned less than a tenth, (start - level) / |start| <
           0.1 with start = max(L0, median of the first window), and in the newest half of the run (at least the
           newest two windows) the decrease from the earlier half of it (before) to the later (after) is certainly
           small: d + 2 s < `diff_percent` / 100, where d = (median(before) - median(after)) / |median(before)|.
        4. s is the standard error of d. A median of n losses has the error 1.2533 x 1.4826 x MAD / sqrt(n), where MAD
           is the median absolute deviation; the errors of the two medians add in squares. Where noise could hide a
           decrease, s is large and the rule stays silent until longer windows tell.
        5. Three judged steps in a row must say so. A run that ends before there are two windows, and has not learned a
           tenth by then, could not be evaluated: that is not a clean bill of health.

        A run that converged is silent, since most of its loss is gone, and so is one that still learns slowly or that
        only a few small batches make look bad. What it cannot see: a first loss that was far too high by accident
        (inputs a thousand times too large) and then fell to the level of guessing looks like success.

        Amazon's LossNotDecreasing has the same three names. As documented, it compares two single losses that are at
        least `num_steps` = 10 steps apart and fires when the later is not at least `diff_percent` = 0.1 % below the
        earlier, whatever the noise and however much was learned before. On healthy runs that is sure to happen. Ours
        compares medians of windows of `num_steps` = 500 steps, asks for a decrease of `diff_percent` = 0.5 % over such
        a window, and judges training losses only: a rising validation loss is a matter of overfitting.

    What to do:
        If the loss rose, lower the learning rate. If it never moved, raise it by a factor of ten, then see that the
        optimizer holds the model's parameters and that gradients arrive (`vanishing-gradient`). A run that was resumed,
        or fine-tuned from a good checkpoint, begins where others end: leave this rule out there, or set a longer
        `num_steps`.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.loss_not_decreasing import judge_losses

        stuck = np.full(100, 2.303)
        answer = judge_losses(stuck, window=50, diff_percent=0.5, increase_threshold_percent=5)
        assert answer is not None and answer.kind == "stuck"

        learning = 2.303 * 0.99 ** np.arange(100)
        assert judge_losses(learning, window=50, diff_percent=0.5, increase_threshold_percent=5) is None
        ```

    References:
        - Huber, Ronchetti: Robust Statistics (2009): the median, the MAD and their errors.
        - Amazon SageMaker Debugger, built-in rule LossNotDecreasing: the parameters.
    """

    rule_id = "loss-not-decreasing"
    watches = ("losses",)
    save_interval = 10
    severity = Severity.CRITICAL
    since = "0.1"
    patience = 3
    what_to_do = (
        "If the loss rises, divide the learning rate by ten. If it never moved, multiply it by ten.",
        "See that the optimizer was given the model's parameters and that backward and step run in each iteration.",
        "Try to overfit a single batch: if that fails, the model or the loss is at fault, not the data.",
    )

    num_steps: int = parameter(500, "steps whose losses make up one window", minimum=1)
    diff_percent: float = parameter(
        0.5,
        "decrease of the loss in percent, from one window to the next, below which it is stuck",
        minimum=0,
        maximum=100,
    )
    increase_threshold_percent: float = parameter(
        5.0, "rise of the loss in percent, over its lowest level, above which it rises", minimum=0
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """One finding per loss and worker that is stuck or rises at this step, the largest rise first."""
        if window.mode not in _TRAINING_MODES:
            return []
        columns = [column for name in window.tensors("losses") for column in window.statistic(name, "mean")]
        findings = [found for column in columns if (found := self._judge(window, column)) is not None]
        return sorted(findings, key=lambda finding: (finding.relation != ">", -abs(finding.observed)))

    def lacks(self, window: Window) -> str:
        """Two windows, unless the run has visibly learned before."""
        columns = [column for name in window.tensors("losses") for column in window.statistic(name, "mean")]
        rows = [self._finite(window, column) for column in columns]
        if any(len(losses) >= 2 * size or _has_learned(losses, size) for _, losses, size in rows if len(losses)):
            return ""
        return (
            f"two windows of {self.num_steps} steps to compare, or a loss that has fallen; this is step {window.step}"
        )

    def _finite(self, window: Window, column: Column) -> tuple[NDArray[np.int64], Losses, int]:
        """The steps and values of the finite losses, and how many of them make up the newest window."""
        finite = np.isfinite(column.values)
        steps, losses = column.steps[finite], column.values[finite]
        return steps, losses, max(_FEWEST_LOSSES, int(np.count_nonzero(steps > window.step - self.num_steps)))

    def _judge(self, window: Window, column: Column) -> Finding | None:
        if column.steps[-1] != window.step or not math.isfinite(column.values[-1]):
            return None  # a broken loss is exploding-tensor's
        steps, losses, size = self._finite(window, column)
        answer = judge_losses(
            losses,
            window=size,
            diff_percent=self.diff_percent,
            increase_threshold_percent=self.increase_threshold_percent,
        )
        if answer is None:
            return None
        rises = answer.kind == "rising"
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=int(steps[answer.since]),
            measure="rise of the loss in %" if rises else "decrease of the loss in %",
            observed=answer.percent,
            relation=">" if rises else "<",
            threshold=self.increase_threshold_percent if rises else self.diff_percent,
            statistics={
                "first_loss": float(losses[0]),
                "level": answer.level,
                "compared_with": answer.compared_with,
                "error_percent": answer.error_percent,
                "window_losses": float(size),
            },
            series=column.series,
        )


@dataclass(frozen=True)
class Answer:
    """What is wrong with a row of losses: `kind` is `rising` or `stuck`.

    `percent` is by how much the loss rose over `compared_with` (its lowest level), or fell from it (the level before).
    `since` is the index of the first loss that belongs to the trouble.
    """

    kind: str
    percent: float
    error_percent: float
    level: float
    compared_with: float
    since: int


def judge_losses(
    losses: Losses, *, window: int, diff_percent: float, increase_threshold_percent: float
) -> Answer | None:
    """Whether these losses (finite, oldest first, shape (n,)) rise or are stuck; None if neither can be said.

    `window` is the number of losses in a window.
    """
    if len(losses) < window:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # losses near the largest float: an infinite mean is an answer
        return _rising(losses, window, increase_threshold_percent) or _stuck(losses, window, diff_percent)


def _rising(losses: Losses, window: int, threshold_percent: float) -> Answer | None:
    newest = losses[-window:]
    level = float(np.median(newest))
    if level <= losses[0] - _LEARNED * abs(losses[0]):
        return None
    whole = losses[: len(losses) // window * window].reshape(-1, window)
    lowest = min(float(losses[0]), float(np.median(whole, axis=1).min()))
    limit = lowest + threshold_percent / 100 * abs(lowest)
    if not newest.min() > limit:
        return None
    below = np.flatnonzero(losses <= limit)
    return Answer(
        kind="rising",
        percent=_percent(level - lowest, lowest),
        error_percent=0.0,
        level=level,
        compared_with=lowest,
        since=int(below[-1]) + 1 if below.size else 0,
    )


def _stuck(losses: Losses, window: int, diff_percent: float) -> Answer | None:
    if len(losses) < 2 * window:
        return None
    if _has_learned(losses, window):
        return None
    half = max(window, len(losses) // 4)
    before, after = losses[-2 * half : -half], losses[-half:]
    compared_with, level = float(np.median(before)), float(np.median(after))
    decrease = _percent(compared_with - level, compared_with)
    error = _percent(math.hypot(_error_of_median(before), _error_of_median(after)), compared_with)
    if not decrease + 2 * error < diff_percent:
        return None
    return Answer(
        kind="stuck",
        percent=decrease,
        error_percent=error,
        level=level,
        compared_with=compared_with,
        since=len(losses) - 2 * half,
    )


def _has_learned(losses: Losses, window: int) -> bool:
    start = max(float(losses[0]), float(np.median(losses[:window])))
    return start - float(np.median(losses[-window:])) >= _LEARNED * abs(start)


def _percent(difference: float, of: float) -> float:
    return 100 * difference / abs(of) if of else math.copysign(math.inf, difference) if difference else 0.0


def _error_of_median(values: Losses) -> float:
    """Standard error of the median of normal noise, from the median absolute deviation."""
    deviation = float(np.median(np.abs(values - np.median(values))))
    return 1.2533 * 1.4826 * deviation / math.sqrt(len(values))
