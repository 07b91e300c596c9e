"""loss-not-decreasing: the training does not learn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.causes import DIVERGES, LEARNS_NOTHING
from trackside.evidence.suspects import only
from trackside.rules.advice import Advice, Concerns
from trackside.rules.details import Details
from trackside.rules.rule import Rule, parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import AS_GUESSING, COURSE_STEPS, HALF_AS_MUCH_AGAIN, NEWEST_LOSSES, TENFOLD
from trackside.situation.levels_of_guessing import (
    above_guessing,
    finite_losses,
    goes_on,
    judged_losses,
    level_of_guessing,
    never_exceeded_guessing,
    steps_needed,
)
from trackside.situation.losses.guessing import beats, best_guess
from trackside.situation.losses.losses import error_of_median, whole_losses
from trackside.situation.losses.stuck_losses import (
    Answer,
    Losses,
    Steps,
    fell,
    had_learned,
    has_learned,
    judge_losses,
    start_of,
)
from trackside.situation.medians import median
from trackside.situation.phases import newest_phase
from trackside.situation.update_growth import is_driven, may_move
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class Stuck(Details):
    """Details of a finding.

    first_loss, lost_above   first loss, and the level above which a training is lost
    level, window_losses     level and number of the newest losses
    compared_with, error_percent   level of before, and its error
    learned_nothing          True if nothing was learned in all the steps that a training is given
    """

    first_loss: float = 0.0
    lost_above: float = 0.0
    level: float = 0.0
    compared_with: float = 0.0
    error_percent: float = 0.0
    window_losses: int = 0
    learned_nothing: bool = False


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
        3. s is the standard error of d: a median of n losses has the error 1.2533 x 1.4826 x MAD / sqrt(n), of two they
           add in squares. Where noise could hide a decrease, the rule stays silent until longer windows tell.
        4. A level of guessing is no learning, however high the first loss was: guessing is the loss of the best
           constant answer to the labels that were saved. With classes as labels, a level of at least 98 % of that
           loss has learned nothing, if no evaluation was better. Where eight evaluations and more were never better
           than guessing, and the last third of them no better than those before, start is at most that loss, and no
           decrease is enough for learning: a training loss that falls by the labels of single rows has learned nothing.
        5. Steps in which the learning rate is still warming up (below half of the largest rate so far) do not count,
           but what was learned in them does. So it is before a new optimizer, which begins a new baseline of L0, lowest
           and start, unless optimizers are made again and again.
        6. Losses that are ever negative are left alone, and so are programs with several optimizers, unless these step
           together for one loss: the losses of a policy gradient or of two models that compete have no level that they
           should fall to. Of a sum of losses only the sum is judged: an addend may rise while it falls.
        7. When the run has ended, nothing more can come: then d may be as large as noise allows if the loss did not
           certainly fall from the first quarter of the run to the last (by two standard errors) and is not below
           guessing, or if the evaluations of point 4 were never better than guessing.
        8. Of trees without a training loss the validation losses are judged: stuck where none is below the first.
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

        Amazon's LossNotDecreasing has the same three names and compares two single losses, which is sure to fire on
        healthy runs: the preset `aws-docs`. Validation losses that rise are a matter of overfitting.

        It needs no neighbouring steps. In a run that is watched in bursts, halves and quarters of the run are made of
        equally many losses of each part, so that its first steps, all of which are watched, count for no more.

        A run that was resumed or fine-tuned begins where others end: leave the rule out, or set a longer `num_steps`.

    Example:
        ```python
        import numpy as np
        from trackside.situation.losses.stuck_losses import judge_losses

        stuck = np.full(200, 2.303)
        answer = judge_losses(stuck, window=50, diff_percent=5, increase_threshold_percent=5)
        assert answer is not None and answer.kind == "stuck"
        ```

    References:
        - Huber, Ronchetti: Robust Statistics (2009): the median, the MAD and their errors.
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
    suspects = (*only(DIVERGES, ">"), *only(LEARNS_NOTHING, "<"))
    what_to_do = (
        "If the loss rises, divide the learning rate by ten. If it never moved, multiply it by ten.",
        Advice(
            "See that the optimizer was given the model's parameters and that backward and step run in each iteration.",
            Concerns.LOOPS,
        ),
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
        findings = [found for c in judged_losses(window) if (found := self._judge(window, c)) is not None]
        return sorted(findings, key=lambda finding: (finding.relation != ">", -abs(finding.observed)))

    def lacks(self, window: Window) -> str:
        """Name the missing input: two windows, unless the run has visibly learned before."""
        columns = judged_losses(window)
        rows = [self._finite(window, column) for column in columns]
        learned = any(has_learned(losses, min(size, len(losses))) for _, losses, size in rows if len(losses))
        needed = steps_needed(window, self.start_step)
        late = any(len(losses) >= 2 * size and steps[-1] >= needed for steps, losses, size in rows)
        if (learned or late) and (guess := above_guessing(window, columns)) is not None:
            return f"a loss below {guess:.3g}, that of guessing"
        if learned or (late and whole_losses(window)):
            return ""
        if late:
            return "a validation loss that has fallen by a tenth, or a training loss"
        return f"{needed} steps of a training loss, or a loss that has fallen; this is step {window.step}"

    def is_over(self, opened: Finding, window: Window) -> bool:
        """Return True if the loss is better than it was before the fault, and than guessing, beyond noise."""
        place = opened.subject, opened.worker
        column = next((c for c in judged_losses(window) if (c.tensor, c.worker) == place), None)
        if column is None:
            return True
        _, losses, size = self._finite(window, column)
        if not len(losses) or not math.isfinite(column.values[-1]):
            return False
        guess = best_guess(window, column.tensor, worker=column.worker)
        moves = may_move(window, column.tensor, worker=column.worker)  # then the labels of old steps are no measure
        if guess is not None and not moves and not beats(losses[-size:], guess.loss):
            return False
        before = (stuck := Stuck.of(opened)).compared_with
        if opened.relation == ">":
            return median(losses[-size:]) <= before + self.increase_threshold_percent / 100 * abs(before)
        error = stuck.error_percent / 100 * abs(before)
        now, level = losses[-size:], min(before, stuck.level)
        return median(now) + 2 * math.hypot(error, error_of_median(now)) < level

    def _finite(self, window: Window, column: Column, *, through: int | None = None) -> tuple[Steps, Losses, int]:
        return finite_losses(window, column, through=through, num_steps=self.num_steps)

    def _judge(self, window: Window, column: Column) -> Finding | None:
        if not math.isfinite(column.values[-1]) or (column.values < 0).any():
            return None  # a broken loss is exploding-tensor's
        found = self._answer(window, column, through=window.step)
        if found is None:
            return None
        if not window.is_last:
            before = self._answer(window, column, through=window.step - COURSE_STEPS)
            if before is None or before[1].kind != found[1].kind:
                return None
        steps, answer, first, size = found
        rises = answer.kind == "rising"
        facts = window.facts.loss(column.tensor) if window.facts else None
        is_by_hand = facts is not None and not facts.is_built_in
        if rises and is_by_hand and answer.level < HALF_AS_MUCH_AGAIN * first:
            return None
        if may_move(window, column.tensor, worker=column.worker):
            _, losses, window_losses = self._finite(window, column)
            if not is_driven(window, worker=column.worker) if rises else had_learned(losses, window_losses):
                return None
        since, learns = int(steps[answer.since]), not rises and window.is_last and answer.learned < 1 - AS_GUESSING
        learned_nothing = learns and window.step >= self.start_step
        lost_above = (TENFOLD if is_by_hand else HALF_AS_MUCH_AGAIN) * first
        is_long = learned_nothing or window.step - since > self.num_steps
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=since,
            measure="rise of the loss in %" if rises else "decrease of the loss in %",
            observed=answer.percent,
            relation=">" if rises else "<",
            threshold=self.increase_threshold_percent if rises else self.diff_percent,
            statistics=Stuck(
                first, lost_above, answer.level, answer.compared_with, answer.error_percent, size, learned_nothing
            ).numbers(),
            grade=Severity.CRITICAL if (answer.level > lost_above if rises else is_long) else Severity.WARNING,
            series=column.series,
            place=facts.line if facts else "",
        )

    def _answer(self, window: Window, column: Column, *, through: int) -> tuple[Steps, Answer, float, int] | None:
        """Return the steps and the fault of the losses through a step, their first loss, and the window's losses."""
        all_steps, all_losses, _ = self._finite(window, column, through=through)
        began = newest_phase(window)
        kept = all_steps >= began
        steps, losses = all_steps[kept], all_losses[kept]
        size = max(NEWEST_LOSSES, min(int(np.count_nonzero(steps > through - self.num_steps)), len(losses) // 4))
        never_better = never_exceeded_guessing(window, column)
        answer = judge_losses(
            losses,
            window=size,
            diff_percent=self.diff_percent,
            increase_threshold_percent=self.increase_threshold_percent,
            guessing=never_better,
            level_of_guessing=lambda: level_of_guessing(window, column),
            has_ended=window.is_last,
            evenly=window.rests(column.worker).evenly(steps),
        )
        if answer is None:
            return None
        if answer.kind == "stuck" and window.step - began < steps_needed(window, self.start_step):
            return None
        is_judged_alone = never_better is not None or answer.is_guessing
        if answer.kind == "stuck" and not is_judged_alone:
            if goes_on(window) or (not whole_losses(window) and losses.min() < losses[0]):
                return None
            earlier = column.values[np.isfinite(column.values) & (column.steps <= through)]
            if fell(start_of(earlier, size), answer.level):
                return None  # it was learned before the new baseline, or while the rate was warming up
        return steps, answer, float(losses[0]), size
