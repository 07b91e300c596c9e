"""loss-not-decreasing: the training does not learn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import (
    Evidence,
    error_of_median,
    has_several_aims,
    why_it_diverges,
    why_nothing_is_learned,
)
from trackside.rules.evaluations import (
    MANY,
    Evaluations,
    by_evaluation,
    has_stopped_falling,
    training_of,
    was_never_better,
)
from trackside.rules.guessing import beats, best_guess
from trackside.rules.medians import median, medians_of_rows
from trackside.rules.phases import newest_phase
from trackside.rules.rule import Rule, parameter
from trackside.rules.training_loss import whole_losses
from trackside.rules.update_growth import is_driven, may_move
from trackside.trial.window import Column, Window

_FEWEST_LOSSES = 20  # in a window, however seldom losses are saved
_LEARNED = 0.1  # a run that has lost this share of its first loss learns; it may rest on a plateau
_LOST = 1.5  # times the first loss
_LOST_BY_HAND = 10.0  # the same of a loss that is no known one: such as a policy's, which pays late, may well rise
_FAR = 2.0  # times the first loss, which is but one loss: until then the first window stands for the start
_AGAIN = 5.0  # percent: a loss that rose and fell by so much since is on its way down again
_AS_GUESSING = 0.98  # of the loss of guessing, or of the first
_ABOVE_GUESSING = 1.1  # times the loss of guessing, since the saved labels are a sample
_AT_THE_END = 0.4  # of `start_step`, from which on the loss of a run that has ended can be stuck
_NOT_MOVED = 0.01  # of its size, by no weight of a run that has ended
_ENOUGH_TO_MOVE = 30  # steps
_ROUNDS = 2 * _FEWEST_LOSSES  # of trees, each of which reads all rows: two windows
_AFTER_MANY = 0.2  # the same after eight evaluations and more: a short run with many passes over few data
_CONFIRMED_AFTER = 10  # steps
_SLOWLY = 0.5  # percent: a loss that certainly fell by more over half a run learns, if slowly

Losses = NDArray[np.float64]
Steps = NDArray[np.int64]


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
           was learned is lost. Not while the level is below 2 x L0 and the loss certainly falls again since it rose, by
           more than 5 %: so does a new task, a harder one, or a layer that begins anew. A loss computed by hand rises
           only where level > 1.5 x L0: that of a policy follows what the policy meets, and the returns that it earns.
           It must also be driven, as must one whose targets have moved (bootstrapped values): by a learning rate or
           updates beyond all earlier ones, by updates of a tenth of the weights, or weights ten times as large.
        2. Stuck, from `start_step` on, at the end of a run from two fifths of it on (of trees, which read all rows in
           each round, from 40 rounds on; never where a model that had trees before goes on), from a fifth of it on
           after eight evaluations and more, or from 30 steps on where no weight has come a hundredth of its size (the
           sum of its relative updates): the run has learned less than a tenth, (start - level) / |start| < 0.1 with
           start = max(L0, median of the first window), and in the newest half of the run the decrease from the earlier
           half of it (before) to the later (after) is certainly small: d + 2 s < `diff_percent` / 100, and not
           certainly more than half a percent (then it learns); d = (median(before) - median(after)) / |median(before)|.
           It learns, too, if the loss fell certainly by more than one percent from the second quarter of the run to the
           fourth. A loss that certainly rises, by more than `increase_threshold_percent`, is left to point 1. A loss
           that may move (computed by hand, or with targets that have moved) is not stuck where it had learned a tenth
           before: a term may have joined it.
        3. s is the standard error of d. A median of n losses has the error 1.2533 x 1.4826 x MAD / sqrt(n), where MAD
           is the median absolute deviation; the errors of the two medians add in squares. Where noise could hide a
           decrease, s is large and the rule stays silent until longer windows tell.
        4. A level of guessing is no learning, however high the first loss was: guessing is the loss of the best
           constant answer to the labels that were saved. With classes as labels, a level of at least 98 % of that
           loss has learned nothing, if no evaluation was better. Where eight evaluations and more were never better
           than guessing, and the last third of them no better than those before, start is at most that loss, and no
           decrease is enough for learning: a training loss that falls by the labels of single rows has learned nothing.
        5. Steps in which the learning rate is still warming up (below half of the largest rate so far) do not count,
           but what was learned in them does.
           A new optimizer begins a new baseline: L0, lowest and start are those since then, and what was learned
           before still counts as learned. Not where optimizers are made again and again.
        6. Losses that are ever negative are left alone, and so are programs with several optimizers, unless these step
           together for one loss: the losses of a policy gradient or of two models that compete have no level that they
           should fall to. Of a sum of losses only the sum is judged: an addend may rise while it falls.
        7. When the run has ended, nothing more can come: then d may be as large as noise allows if the loss did not
           certainly fall from the first quarter of the run to the last (by two standard errors) and is not below
           guessing, or if the evaluations of point 4 were never better than guessing.
        8. Of trees without a training loss the validation losses are judged. They are stuck where none was lower
           than the first.
        9. The losses up to ten steps before must say the same, unless the run has ended. A run that ends before two
           fifths of `start_step`, and has not learned a tenth by then, could not be evaluated: that is not a clean bill
           of health. Neither is a loss that is a tenth above that of guessing classes, however far it fell.

        10. An issue is over once the newest losses are certainly below guessing, where that is known, and a loss that
           rose is back within `increase_threshold_percent` of lowest, one that was stuck certainly below the level that
           it stood at: by two standard errors. Fewer findings, by noise, are no recovery.

        Critical where the loss has risen above 1.5 x L0 (10 x L0 where it is computed by hand, for that may be the loss
        of a policy with seldom rewards, all positive), is stuck for more than `num_steps` steps, or where a run of
        `start_step` steps ends and has learned nothing: its level is at least 98 % of start, or of guessing. Else a
        warning.

        A run that converged is silent, since most of its loss is gone, and so is one that still learns slowly or that
        only a few small batches make look bad.

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
    code = "TS105"
    watches = ("losses",)
    save_interval = 10
    needs = ()
    paced = True
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.LEARNING_RATE_TOO_HIGH, Cause.LEARNING_RATE_TOO_LOW)
    what_to_do = (
        "If the loss rises, divide the learning rate by ten. If it never moved, multiply it by ten.",
        "See that the optimizer was given the model's parameters and that backward and step run in each iteration.",
        "Try to overfit a single batch: if that fails, the model or the loss is at fault, not the data.",
    )

    start_step: int = parameter(
        300,
        "step from which on a loss can be stuck; at the end of a run two fifths of it, a fifth after eight "
        "evaluations, 30 where no weight has come a hundredth of its size",
        minimum=1,
    )
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
        findings = [found for c in _judged(window) if (found := self._judge(window, c)) is not None]
        return sorted(findings, key=lambda finding: (finding.relation != ">", -abs(finding.observed)))

    def lacks(self, window: Window) -> str:
        """Name the missing input: two windows, unless the run has visibly learned before.

        A loss above that of guessing has learned nothing yet, however far it fell, and of a validation loss alone only
        a fall tells.
        """
        columns = _judged(window)
        rows = [self._finite(window, column) for column in columns]
        learned = any(_has_learned(losses, min(size, len(losses))) for _, losses, size in rows if len(losses))
        needed = self._needed(window)
        late = any(len(losses) >= 2 * size and steps[-1] >= needed for steps, losses, size in rows)
        if (learned or late) and (guess := _above_guessing(window, columns)) is not None:
            return f"a loss below {guess:.3g}, that of guessing"
        if learned or (late and whole_losses(window)):
            return ""
        if late:
            return "a validation loss that has fallen by a tenth, or a training loss"
        return f"{needed} steps of a training loss, or a loss that has fallen; this is step {window.step}"

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Return CRITICAL if the training is lost for certain."""
        return Severity.CRITICAL if any(self._is_lost(finding) for finding in findings) else Severity.WARNING

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return causes of a rising loss, or of a loss that does not fall."""
        return why_it_diverges(window) if findings[0].relation == ">" else why_nothing_is_learned(window)

    def is_over(self, opened: Finding, window: Window) -> bool:
        """Return True if the loss is better than it was before the fault, and than guessing, beyond noise.

        A loss that rose is back at its lowest level; one that was stuck is certainly below the level that it stood at.
        """
        column = next((c for c in _judged(window) if (c.tensor, c.worker) == (opened.subject, opened.worker)), None)
        if column is None:
            return True
        _, losses, size = self._finite(window, column)
        if not len(losses) or not math.isfinite(column.values[-1]):
            return False
        guess = best_guess(window, column.tensor, worker=column.worker)
        moves = may_move(window, column.tensor, worker=column.worker)  # then the labels of old steps are no measure
        if guess is not None and not moves and not beats(losses[-size:], guess.loss):
            return False
        before = opened.statistics["compared_with"]
        if opened.relation == ">":
            return median(losses[-size:]) <= before + self.increase_threshold_percent / 100 * abs(before)
        error = opened.statistics["error_percent"] / 100 * abs(before)
        now, level = losses[-size:], min(before, opened.statistics["level"])
        return median(now) + 2 * math.hypot(error, error_of_median(now)) < level

    def _is_lost(self, finding: Finding) -> bool:
        numbers = finding.statistics
        if finding.relation == ">":
            return numbers["level"] > numbers["lost_above"]
        return bool(numbers["learned_nothing"]) or finding.step - finding.since_step > self.num_steps

    def _needed(self, window: Window) -> int:
        """Return the number of steps from which on a loss can be stuck."""
        if not window.is_last:
            return self.start_step
        if window.facts is not None and window.facts.is_of_trees:
            return min(_ROUNDS, self.start_step)
        way = Evidence(window).way
        if way is not None and way[0] < _NOT_MOVED and way[1] >= _ENOUGH_TO_MOVE:
            return min(_ENOUGH_TO_MOVE, self.start_step)
        seen = [each for column in whole_losses(window) for each in _evaluations_of(window, column)]
        share = _AFTER_MANY if any(len(each.means) >= MANY for each in seen) else _AT_THE_END
        return math.ceil(share * self.start_step)

    def _finite(self, window: Window, column: Column, *, through: int | None = None) -> tuple[Steps, Losses, int]:
        """Return steps and values of the finite losses since the warm-up, and the number of losses in a window."""
        step = window.step if through is None else through
        kept = np.isfinite(column.values) & (column.steps >= _warmed_up_at(window)) & (column.steps <= step)
        steps, losses = column.steps[kept], column.values[kept]
        most = int(np.count_nonzero(steps > step - self.num_steps))
        return steps, losses, max(_FEWEST_LOSSES, min(most, len(losses) // 4))

    def _judge(self, window: Window, column: Column) -> Finding | None:
        if not math.isfinite(column.values[-1]) or (column.values < 0).any():
            return None  # a broken loss is exploding-tensor's
        found = self._answer(window, column, through=window.step)
        if found is None:
            return None
        if not window.is_last:
            before = self._answer(window, column, through=window.step - _CONFIRMED_AFTER)
            if before is None or before[1].kind != found[1].kind:
                return None
        steps, answer, first, size = found
        rises = answer.kind == "rising"
        facts = window.facts.loss(column.tensor) if window.facts else None
        is_by_hand = facts is not None and not facts.is_built_in
        if rises and is_by_hand and answer.level < _LOST * first:
            return None
        if may_move(window, column.tensor, worker=column.worker) and not self._is_certain(window, column, rises=rises):
            return None
        learned_nothing = not rises and window.is_last and len(steps) and answer.learned < 1 - _AS_GUESSING
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
                "first_loss": first,
                "lost_above": (_LOST_BY_HAND if is_by_hand else _LOST) * first,
                "level": answer.level,
                "compared_with": answer.compared_with,
                "error_percent": answer.error_percent,
                "window_losses": float(size),
                "learned_nothing": float(learned_nothing and window.step >= self.start_step),
            },
            series=column.series,
            place=facts.line if facts else "",
        )

    def _is_certain(self, window: Window, column: Column, *, rises: bool) -> bool:
        """Return True if a loss that may move rises because steps drive it, or is stuck and had never learned."""
        if rises:
            return is_driven(window, worker=column.worker)
        _, losses, size = self._finite(window, column)
        return not _had_learned(losses, size)

    def _answer(self, window: Window, column: Column, *, through: int) -> tuple[Steps, Answer, float, int] | None:
        """Return the steps and the fault of the losses through a step, their first loss, and the window's losses."""
        all_steps, all_losses, _ = self._finite(window, column, through=through)
        began = newest_phase(window)
        kept = all_steps >= began
        steps, losses = all_steps[kept], all_losses[kept]
        size = max(_FEWEST_LOSSES, min(int(np.count_nonzero(steps > through - self.num_steps)), len(losses) // 4))
        never_better = _never_exceeded_guessing(window, column)
        answer = judge_losses(
            losses,
            window=size,
            diff_percent=self.diff_percent,
            increase_threshold_percent=self.increase_threshold_percent,
            guessing=never_better,
            level_of_guessing=lambda: _level_of_guessing(window, column),
            has_ended=window.is_last,
        )
        if answer is None:
            return None
        if answer.kind == "stuck" and window.step - began < self._needed(window):
            return None
        is_judged_alone = never_better is not None or answer.is_guessing
        if answer.kind == "stuck" and not is_judged_alone:
            if _goes_on(window) or (not whole_losses(window) and losses.min() < losses[0]):
                return None
            earlier = column.values[np.isfinite(column.values) & (column.steps <= through)]
            if _fell(_start_of(earlier, size), answer.level):
                return None  # it was learned before the new baseline, or while the rate was warming up
        return steps, answer, float(losses[0]), size


def _judged(window: Window) -> tuple[Column, ...]:
    """Return the training losses; of trees without any the validation losses."""
    trained = whole_losses(window)
    if trained or window.facts is None or not window.facts.is_of_trees:
        return trained
    return tuple([c for name in window.tensors("losses") for c in window.statistic(name, "mean", mode="EVAL")])


def _goes_on(window: Window) -> bool:
    """Return True if the model had learned before this training."""
    return window.facts is not None and window.facts.program.rounds_before > 0


def _above_guessing(window: Window, columns: Sequence[Column]) -> float | None:
    """Return the loss of guessing classes, if one of these losses is above it now; else None."""
    for column in columns:
        guess = best_guess(window, column.tensor, worker=column.worker)
        newest = column.values[-_FEWEST_LOSSES:]
        if guess is not None and guess.is_of_classes and newest.min() > _ABOVE_GUESSING * guess.loss:
            return guess.loss
    return None


def _evaluations_of(window: Window, trained: Column) -> tuple[Evaluations, ...]:
    """Return the evaluations beside a training loss, by validation loss."""
    evaluated = [c for name in window.tensors("losses") for c in window.statistic(name, "mean", mode="EVAL")]
    found = [by_evaluation(c, trained) for c in evaluated if training_of(c, (trained,)) is not None]
    return tuple([seen for seen in found if seen is not None])


def _never_exceeded_guessing(window: Window, trained: Column) -> float | None:
    """Return the loss of guessing, if the validation loss was never better; else None."""
    for seen in _evaluations_of(window, trained):
        if not has_stopped_falling(seen):
            continue
        guess = best_guess(window, trained.tensor, worker=trained.worker)
        if guess is not None and was_never_better(seen, guess):
            return guess.loss
    return None


def _level_of_guessing(window: Window, trained: Column) -> float | None:
    """Return the loss of guessing classes, by the saved labels: infinite if an evaluation was better; or None."""
    guess = best_guess(window, trained.tensor, worker=trained.worker)
    if guess is None or not guess.is_of_classes:
        return None
    was_better = any(seen.means.min() < _AS_GUESSING * guess.loss for seen in _evaluations_of(window, trained))
    return math.inf if was_better else guess.loss


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
    learned        share of the start, or of guessing, that was learned (stuck)
    is_guessing    the level is that of guessing (stuck)
    """

    kind: str
    percent: float
    error_percent: float
    level: float
    compared_with: float
    since: int
    learned: float = 0.0
    is_guessing: bool = False


def judge_losses(
    losses: Losses,
    *,
    window: int,
    diff_percent: float,
    increase_threshold_percent: float,
    guessing: float | None = None,
    level_of_guessing: Callable[[], float | None] = lambda: None,
    has_ended: bool = False,
) -> Answer | None:
    """Return the fault of these losses (finite, oldest first, shape (n,)), rising or stuck; None without a fault.

    window             number of losses in a window
    guessing           the loss of guessing, if validation losses were never better than that
    level_of_guessing  returns the loss of guessing (infinite: it is known to be learned); called if losses stand still
    has_ended          no further losses come
    """
    if len(losses) < window:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # losses near the largest float: an infinite mean is an answer
        rising = _rising(losses, window, increase_threshold_percent)
        return rising or _stuck(
            losses,
            window,
            between=(-increase_threshold_percent, diff_percent),
            has_ended=has_ended,
            guessing=guessing,
            level_of_guessing=level_of_guessing,
        )


def _rising(losses: Losses, window: int, threshold_percent: float) -> Answer | None:
    newest = losses[-window:]
    level = median(newest)
    if level <= losses[0] - _LEARNED * abs(losses[0]):
        return None
    whole = losses[: len(losses) // window * window].reshape(-1, window)
    lowest = float(medians_of_rows(whole).min())
    if losses[0] < lowest and level > _FAR * abs(losses[0]):  # it has been rising ever since
        lowest = float(losses[0])
    limit = lowest + threshold_percent / 100 * abs(lowest)
    if not newest.min() > limit:
        return None
    below = np.flatnonzero(losses <= limit)
    since = int(below[-1]) + 1 if below.size else 0
    if level < _FAR * abs(losses[0]) and _falls_again(losses[since:]):
        return None
    return Answer(
        kind="rising",
        percent=_percent(level - lowest, lowest),
        error_percent=0.0,
        level=level,
        compared_with=lowest,
        since=since,
    )


def _falls_again(risen: Losses) -> bool:
    """Return True if losses certainly fell from the first third to the last, by more than a twentieth."""
    third = len(risen) // 3
    if third < 2:
        return False
    decrease, error = _decrease(risen[:third], risen[-third:])
    return decrease - 2 * error > _AGAIN


def _stuck(
    losses: Losses,
    window: int,
    *,
    between: tuple[float, float],
    has_ended: bool,
    guessing: float | None,
    level_of_guessing: Callable[[], float | None],
) -> Answer | None:
    if len(losses) < 2 * window:
        return None
    half = max(window, len(losses) // 4)
    before, after = losses[-2 * half : -half], losses[-half:]
    decrease, error = _decrease(before, after)
    largest, newest = decrease + 2 * error, median(losses[-window:])
    if has_ended and decrease < between[1] <= largest and (guessing is not None or not _certainly_fell(losses)):
        guess = level_of_guessing()
        largest = decrease if guess is None or guessing is not None or newest >= _AS_GUESSING * guess else largest
    if not between[0] <= largest < between[1]:
        return None
    if guessing is None and _learns_slowly(losses, half, decrease - 2 * error):
        return None
    start = _start_of(losses, window)
    if guessing is not None:
        start = min(start, guessing)
    is_guessing = False
    if _fell(start, newest):
        guess = level_of_guessing()
        if guess is None or newest < _AS_GUESSING * guess:
            return None
        start, is_guessing = guess, True
    return Answer(
        kind="stuck",
        percent=decrease,
        error_percent=error,
        level=median(after),
        compared_with=median(before),
        since=len(losses) - 2 * half,
        learned=(start - newest) / abs(start) if start else 0.0,
        is_guessing=is_guessing,
    )


def _certainly_fell(losses: Losses) -> bool:
    """Return True if the loss fell from the first quarter of the run to the last, by more than two standard errors."""
    quarter = len(losses) // 4
    decrease, error = _decrease(losses[:quarter], losses[-quarter:])
    return decrease > 2 * error


def _learns_slowly(losses: Losses, half: int, certain: float) -> bool:
    """Return True for a certain decrease in the newest half, or from the second quarter to the last.

    certain  the least decrease in percent over the newest half that noise allows
    """
    if certain > _SLOWLY:
        return True
    if len(losses) < 4 * half:
        return False
    decrease, error = _decrease(losses[-3 * half : -2 * half], losses[-half:])
    return decrease - 2 * error > 2 * _SLOWLY  # over twice the steps


def _decrease(before: Losses, after: Losses) -> tuple[float, float]:
    """Return the decrease of the median in percent of the earlier one, and its standard error."""
    first = median(before)
    error = math.hypot(error_of_median(before), error_of_median(after))
    return _percent(first - median(after), first), _percent(error, first)


def _start_of(losses: Losses, window: int) -> float:
    return max(float(losses[0]), median(losses[:window]))


def _fell(start: float, level: float) -> bool:
    return start - level >= _LEARNED * abs(start)


def _has_learned(losses: Losses, window: int) -> bool:
    return _fell(_start_of(losses, window), median(losses[-window:]))


def _had_learned(losses: Losses, window: int) -> bool:
    """Return True if some window was a tenth below the start, whatever the loss is now."""
    whole = losses[: len(losses) // window * window].reshape(-1, window)
    return bool(len(whole)) and _fell(_start_of(losses, window), float(medians_of_rows(whole).min()))


def _percent(difference: float, of: float) -> float:
    return 100 * difference / abs(of) if of else math.copysign(math.inf, difference) if difference else 0.0
