"""loss-not-decreasing: the training does not learn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.model_facts import LossFacts
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import (
    Evidence,
    has_several_aims,
    training_losses,
    why_it_diverges,
    why_nothing_is_learned,
)
from trackside.rules.evaluations import by_evaluation, has_stopped_falling, training_of, was_never_better
from trackside.rules.guessing import best_guess
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_FEWEST_LOSSES = 20  # in a window, however seldom losses are saved
_LEARNED = 0.1  # a run that has lost this share of its first loss learns; it may rest on a plateau
_LOST = 1.5  # times the first loss
_LOST_BY_HAND = 10.0  # the same of a loss that is no known one: such as a policy's, which pays late, may well rise
_FAR = 2.0  # times the first loss, which is but one loss: until then the first window stands for the start
_SLOWLY = 0.5  # percent: a loss that certainly fell by more over half a run learns, if slowly

Losses = NDArray[np.float64]


@dataclass(frozen=True)
class LossNotDecreasing(Rule):
    """The loss is stuck near its first value, or rises.

    Why it matters:
        A job that does not learn costs as much as one that does. Loss curves are noisy, so this is often seen hours
        late, when somebody looks at the chart.

    How it decides:
        For each training loss (mode TRAIN, or GLOBAL where the script sets none) and worker, with the finite losses so
        far. L0 is the first of them; a window holds the newest quarter of the losses, at least 20 and at most those of
        `num_steps` steps; level is the median of the newest window.

        1. Rising: let lowest be the smallest median of all windows so far, one after the other (or L0, once the level
           is above 2 x L0: a single loss may be low by accident). The loss rises when even the smallest loss of the
           newest window is more than `increase_threshold_percent` above lowest, and level > 0.9 x L0: nearly all that
           was learned is lost.
        2. Stuck, from `start_step` on: the run has learned less than a tenth, (start - level) / |start| < 0.1 with
           start = max(L0, median of the first window), and in the newest half of the run the decrease from the earlier
           half of it (before) to the later (after) is certainly small: d + 2 s < `diff_percent` / 100, and not
           certainly more than half a percent (then it learns); d = (median(before) - median(after)) / |median(before)|.
        3. s is the standard error of d. A median of n losses has the error 1.2533 x 1.4826 x MAD / sqrt(n), where MAD
           is the median absolute deviation; the errors of the two medians add in squares. Where noise could hide a
           decrease, s is large and the rule stays silent until windows are longer.
        4. Where eight evaluations and more were never better than guessing (the loss of the best constant answer to the
           labels that were saved), and the last third of them no better than those before, start is at most that loss,
           and no decrease is enough for learning: a training loss that falls from too high to the level of guessing,
           or by the labels of single rows, has learned nothing.
        5. Steps in which the learning rate is still warming up (below half of the largest rate so far) do not count.
        6. Losses that are ever negative are left alone, and so are programs with several optimizers: the losses of a
           policy gradient or of two models that compete have no level that they should fall to. Of a sum of losses only
           the sum is judged: an addend may rise while it falls.
        7. It must hold at two judged steps in a row. A run that ends before `start_step`, without having learned a
           tenth, could not be evaluated: that is not a clean bill of health.

        Critical where the loss has risen above 1.5 x L0 (10 x L0 where it is computed by hand, for that may be the loss
        of a policy with seldom rewards, all positive), or is stuck for more than `num_steps` steps; else a warning.

        A run that converged is silent, since most of its loss is gone, and so is one that still learns slowly or that
        only a few small batches make look bad. What it cannot see without evaluations: a first loss that was far too
        high by accident (inputs a thousand times too large) and then fell to the level of guessing looks like success.

        Amazon's LossNotDecreasing has the same three names. As documented, it compares two single losses that are at
        least `num_steps` = 10 steps apart and fires when the later is not at least `diff_percent` = 0.1 % below the
        earlier, whatever the noise and however much was learned before. On healthy runs that is sure to happen. Ours
        compares medians of windows, and judges training losses only: a rising validation loss is a matter of
        overfitting. The documented rule is the preset `aws-docs`.

    What to do:
        If the loss rose, lower the learning rate. If it never moved, raise it by a factor of ten, then see that the
        optimizer holds the model's parameters and that gradients arrive (`vanishing-gradient`). A run that was resumed,
        or fine-tuned from a good checkpoint, begins where others end: leave this rule out there, or set a longer
        `num_steps`.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.loss_not_decreasing import judge_losses

        stuck = np.full(200, 2.303)
        answer = judge_losses(stuck, window=50, diff_percent=5, increase_threshold_percent=5)
        assert answer is not None and answer.kind == "stuck"

        learning = 2.303 * 0.99 ** np.arange(200)
        assert judge_losses(learning, window=50, diff_percent=5, increase_threshold_percent=5) is None
        ```

    References:
        - Huber, Ronchetti: Robust Statistics (2009): the median, the MAD and their errors.
        - Amazon SageMaker Debugger, built-in rule LossNotDecreasing: the parameters.
    """

    rule_id = "loss-not-decreasing"
    watches = ("losses",)
    save_interval = 10
    needs = ()
    paced = True
    severity = Severity.CRITICAL
    since = "0.1"
    patience = 2
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.LEARNING_RATE_TOO_LOW)
    what_to_do = (
        "If the loss rises, divide the learning rate by ten. If it never moved, multiply it by ten.",
        "See that the optimizer was given the model's parameters and that backward and step run in each iteration.",
        "Try to overfit a single batch: if that fails, the model or the loss is at fault, not the data.",
    )

    start_step: int = parameter(120, "step from which on a loss can be stuck", minimum=1)
    num_steps: int = parameter(500, "steps whose losses make up the longest window", minimum=1)
    diff_percent: float = parameter(
        8.0,
        "decrease of the loss in percent, over the newest half of the run, below which it is stuck",
        minimum=0,
        maximum=100,
    )
    increase_threshold_percent: float = parameter(
        5.0, "rise of the loss in percent, over its lowest level, above which it rises", minimum=0
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss and worker that is stuck or rises at this step, the largest rise first."""
        if has_several_aims(window):
            return []
        findings = [found for c in _whole_losses(window) if (found := self._judge(window, c)) is not None]
        return sorted(findings, key=lambda finding: (finding.relation != ">", -abs(finding.observed)))

    def lacks(self, window: Window) -> str:
        """Name the missing input: two windows, unless the run has visibly learned before."""
        rows = [self._finite(window, column) for column in _whole_losses(window)]
        learned = any(_has_learned(losses, min(size, len(losses))) for _, losses, size in rows if len(losses))
        late = any(len(losses) >= 2 * size and steps[-1] >= self.start_step for steps, losses, size in rows)
        if learned or late:
            return ""
        return f"{self.start_step} steps of a training loss, or a loss that has fallen; this is step {window.step}"

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return CRITICAL if the training is lost for certain."""
        return Severity.CRITICAL if any(self._is_lost(finding) for finding in findings) else Severity.WARNING

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return causes of a rising loss, or of a loss that does not fall."""
        return why_it_diverges(window) if findings[0].relation == ">" else why_nothing_is_learned(window)

    def _is_lost(self, finding: Finding) -> bool:
        numbers = finding.statistics
        if finding.relation == ">":
            return numbers["level"] > numbers["lost_above"]
        return finding.step - finding.since_step > self.num_steps

    def _finite(self, window: Window, column: Column) -> tuple[NDArray[np.int64], Losses, int]:
        """Return steps and values of the finite losses since the warm-up, and the number of losses in a window."""
        kept = np.isfinite(column.values) & (column.steps >= _warmed_up_at(window))
        steps, losses = column.steps[kept], column.values[kept]
        most = int(np.count_nonzero(steps > window.step - self.num_steps))
        return steps, losses, max(_FEWEST_LOSSES, min(most, len(losses) // 4))

    def _judge(self, window: Window, column: Column) -> Finding | None:
        if not math.isfinite(column.values[-1]) or (column.values < 0).any():
            return None  # a broken loss is exploding-tensor's
        steps, losses, size = self._finite(window, column)
        answer = judge_losses(
            losses,
            window=size,
            diff_percent=self.diff_percent,
            increase_threshold_percent=self.increase_threshold_percent,
            guessing=_never_exceeded_guessing(window, column),
        )
        if answer is None or (answer.kind == "stuck" and window.step < self.start_step):
            return None
        rises = answer.kind == "rising"
        facts = window.facts.loss(column.tensor) if window.facts else None
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
                "lost_above": (_LOST_BY_HAND if facts and not facts.is_built_in else _LOST) * float(losses[0]),
                "level": answer.level,
                "compared_with": answer.compared_with,
                "error_percent": answer.error_percent,
                "window_losses": float(size),
            },
            series=column.series,
            place=facts.line if facts else "",
        )


def _whole_losses(window: Window) -> tuple[Column, ...]:
    """Return the training losses, without addends of another one."""
    columns = training_losses(window)
    sums = {facts.backward_line for facts in _known(window, columns) if not facts.is_built_in and facts.backward_line}
    parts = {facts.name for facts in _known(window, columns) if facts.is_built_in and facts.backward_line in sums}
    return tuple(column for column in columns if column.tensor not in parts)


def _known(window: Window, columns: Sequence[Column]) -> list[LossFacts]:
    return [known for c in columns if window.facts and (known := window.facts.loss(c.tensor)) is not None]


def _never_exceeded_guessing(window: Window, trained: Column) -> float | None:
    """Return the loss of guessing, if the validation loss was never better; else None."""
    evaluated = [c for name in window.tensors("losses") for c in window.statistic(name, "mean", mode="EVAL")]
    for column in evaluated:
        if training_of(column, (trained,)) is None:
            continue
        seen = by_evaluation(column, trained)
        if seen is None or not has_stopped_falling(seen):
            continue
        guess = best_guess(window, trained.tensor, worker=trained.worker)
        if guess is not None and was_never_better(seen, guess):
            return guess.loss
    return None


def _warmed_up_at(window: Window) -> int:
    """Return the first step at which every learning rate had reached half of its largest value so far."""
    first = 0
    for column in Evidence(window).learning_rates:
        strong = np.flatnonzero(column.values >= column.values.max() / 2)
        first = max(first, int(column.steps[strong[0]]) if strong.size else 0)
    return first


@dataclass(frozen=True)
class Answer:
    """The fault of a sequence of losses.

    kind           `rising` or `stuck`
    percent        the rise over `compared_with`, or the fall from it
    error_percent  the error of `percent`
    level          the present level
    compared_with  the lowest level (rising), or the level before (stuck)
    since          index of the first loss that belongs to the fault
    """

    kind: str
    percent: float
    error_percent: float
    level: float
    compared_with: float
    since: int


def judge_losses(
    losses: Losses,
    *,
    window: int,
    diff_percent: float,
    increase_threshold_percent: float,
    guessing: float | None = None,
) -> Answer | None:
    """Return the fault of these losses (finite, oldest first, shape (n,)), rising or stuck; None without a fault.

    window    number of losses in a window
    guessing  the loss of guessing, if validation losses were never better than that
    """
    if len(losses) < window:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # losses near the largest float: an infinite mean is an answer
        return _rising(losses, window, increase_threshold_percent) or _stuck(losses, window, diff_percent, guessing)


def _rising(losses: Losses, window: int, threshold_percent: float) -> Answer | None:
    newest = losses[-window:]
    level = float(np.median(newest))
    if level <= losses[0] - _LEARNED * abs(losses[0]):
        return None
    whole = losses[: len(losses) // window * window].reshape(-1, window)
    lowest = float(np.median(whole, axis=1).min())
    if losses[0] < lowest and level > _FAR * abs(losses[0]):  # it has been rising ever since
        lowest = float(losses[0])
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


def _stuck(losses: Losses, window: int, diff_percent: float, guessing: float | None) -> Answer | None:
    if len(losses) < 2 * window:
        return None
    if _has_learned(losses, window, guessing):
        return None
    half = max(window, len(losses) // 4)
    before, after = losses[-2 * half : -half], losses[-half:]
    compared_with, level = float(np.median(before)), float(np.median(after))
    decrease = _percent(compared_with - level, compared_with)
    error = _percent(math.hypot(_error_of_median(before), _error_of_median(after)), compared_with)
    learns_slowly = guessing is None and decrease - 2 * error > _SLOWLY
    if not decrease + 2 * error < diff_percent or learns_slowly:
        return None
    return Answer(
        kind="stuck",
        percent=decrease,
        error_percent=error,
        level=level,
        compared_with=compared_with,
        since=len(losses) - 2 * half,
    )


def _has_learned(losses: Losses, window: int, guessing: float | None = None) -> bool:
    start = max(float(losses[0]), float(np.median(losses[:window])))
    if guessing is not None:
        start = min(start, guessing)
    return start - float(np.median(losses[-window:])) >= _LEARNED * abs(start)


def _percent(difference: float, of: float) -> float:
    return 100 * difference / abs(of) if of else math.copysign(math.inf, difference) if difference else 0.0


def _error_of_median(values: Losses) -> float:
    """Return the standard error of the median of normal noise, from the median absolute deviation."""
    deviation = float(np.median(np.abs(values - np.median(values))))
    return 1.2533 * 1.4826 * deviation / math.sqrt(len(values))
