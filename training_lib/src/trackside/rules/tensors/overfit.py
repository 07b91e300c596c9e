"""overfit: the model gets better on the training data and worse on the validation data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import finite, training_losses, why_it_moves_wildly
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

LOST, UNSHARED = "share of the gain lost on validation data", "share of the gain seen on validation data"

_FEWEST_EVALUATIONS = 4
_MANY_EVALUATIONS = 8
_MOSTLY_LEARNED, _BARELY_LEARNED = 0.3, 0.95  # of the first training loss that is left
_NOTHING, _HARDLY_BETTER = 0.02, 0.7  # of the first validation loss, of the first training loss
_NEWEST = 3  # evaluations at least that stand for now: one alone may be an accident
_LONG = 0.2  # share of all evaluations that have come since the best: what has just turned may turn again
_NOISES = 3  # how many times what evaluations differ by from one to the next the rise must be
_NEAR_ITS_LOWEST = 0.1  # of the first training loss: one that rises again has other troubles
_FIRST = 3  # losses that stand for the start
_NEVER_LEARNED = 0.05  # share of the training's gain below which the validation loss never fell
_BADLY = 0.5  # share of the gain that is lost again, from which on the rest of the training is waste
_TRAINING_STILL_FALLS = 0.02

Losses = NDArray[np.float64]


@dataclass(frozen=True)
class Overfit(Rule):
    """The validation loss rises while the training loss goes on falling.

    Why it matters:
        From here on the model learns the training data by heart. Each further step costs money and makes it worse on
        anything it has not seen; the best model was some steps ago.

    How it decides:
        Losses of steps in mode EVAL are validation losses; the hook tells them apart by `model.eval()`.

        1. An evaluation k holds all validation losses between two training steps: E_k is their mean, and T_k the median
           of the training losses since the evaluation before.
        2. Let b be the evaluation with the lowest E. The gain is G = max(E_0 - E_b, T_0 - T_now): what was learned, on
           either data.
        3. Lost again is r = (E_now - E_b) / G, with E_now the lowest of the newest `patience_evaluations`, all of them
           after b, and of the newest fifth of all evaluations: a few bad ones do not count.
        4. It fires where r > `ratio_threshold`, the training loss has gone on falling since b (by more than 2 % of G),
           E_now > (1 + `ratio_threshold`) E_b for positive losses, and the rise is no noise: E_now - E_b is more than
           two standard errors of the evaluations' means where these hold several batches, and more than three times
           what neighbouring evaluations since b differ by (median, of the second differences): a validation set of a
           few samples jumps about.
        5. It also fires where the validation data never shared what was learned: the training loss has lost most of its
           first value (70 %), and the validation loss less than `shared_gain` of what the training loss lost, and gains
           nothing more (or less than half of that); or the training loss has lost a twentieth since the first
           evaluation, the validation loss nothing, and that is still above 70 % of the first training loss. In both
           cases over eight evaluations and more.
        6. Training on to a loss of zero is no fault by itself: as long as the validation loss stays near its best, the
           model is as good as it was.

        A constant added to the losses, or a factor, changes nothing in r. Critical from r > 0.5 on, a warning before.

        Amazon's Overfit compares levels: (mean validation loss - mean training loss) / mean training loss > 0.1. A
        model with dropout, or one that fits its training data well and still gets better on others, exceeds that in
        nearly every healthy run; the documented rule is the preset `aws-docs`.

    What to do:
        Keep the checkpoint of the lowest validation loss and stop there. For a better one: more data or augmentation,
        dropout, weight decay, a smaller model. If the validation loss never fell, look at the labels first.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.overfit import lost_again

        training = np.array([2.3, 1.0, 0.5, 0.2, 0.1, 0.05])
        assert lost_again(np.array([2.3, 1.4, 1.2, 1.5, 1.7, 1.9]), training, patience=3).share > 0.1
        assert lost_again(np.array([2.3, 1.4, 1.2, 1.1, 1.05, 1.04]), training, patience=3) is None
        ```

    References:
        - Prechelt: Early Stopping - But When? (1998): generalisation loss, the rise over the lowest validation loss.
        - Amazon SageMaker Debugger, built-in rule Overfit: the parameters.
    """

    rule_id = "overfit"
    watches = ("losses",)
    save_interval = 10
    needs = ()
    paced = True
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.OVERFITTING, Cause.WRONG_LABELS)
    what_to_do = (
        "Keep the checkpoint of the lowest validation loss, and stop there.",
        "For a better model: more data or augmentation, dropout, weight decay, or fewer parameters.",
        "If the validation loss never fell, look at a few labels beside their inputs.",
    )

    patience_evaluations: int = parameter(3, "newest evaluations that must all be worse than the best", minimum=1)
    ratio_threshold: float = parameter(
        0.3, "share of what was learned that the validation loss must have lost again", minimum=0, maximum=10
    )

    shared_gain: float = parameter(
        0.5, "share of the training's gain that the validation loss must have", minimum=0, maximum=1
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """One finding per loss and worker that overfits."""
        evaluated = [c for name in window.tensors("losses") for c in window.statistic(name, "mean", mode="EVAL")]
        trained = {(c.worker, c.tensor): c for c in training_losses(window)}
        found = []
        for column in evaluated:
            training = trained.get((column.worker, column.tensor)) or _only_one(trained, column.worker)
            if training is not None and (finding := self._judge(window, column, training)) is not None:
                found.append(finding)
        return found

    def lacks(self, window: Window) -> str:
        """A few evaluations in mode EVAL."""
        for name in window.tensors("losses"):
            for column in window.statistic(name, "mean", mode="EVAL"):
                if any(len(by_evaluation(column, c)[0]) >= _FEWEST_EVALUATIONS for c in training_losses(window)):
                    return ""
        return f"{_FEWEST_EVALUATIONS} evaluations of the model in eval mode, with a loss"

    def severity_of(self, findings: Sequence[Finding]) -> Severity:
        """Critical once half of what was learned is lost again."""
        worst = max((finding.observed for finding in findings if finding.measure == LOST), default=0.0)
        return Severity.CRITICAL if worst > _BADLY else Severity.WARNING

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """What is certain; labels where the validation loss never fell: nothing was learned but these by heart."""
        lead = findings[0].statistics
        certain = why_it_moves_wildly(window)
        overfitting = Suspicion(
            Cause.OVERFITTING, f"validation loss {lead['lowest']:.3g} at best, {lead['now']:.3g} now"
        )
        if lead["validation_gain"] < _NEVER_LEARNED * lead["training_gain"]:
            return (*certain, Suspicion(Cause.WRONG_LABELS, "the validation loss has never fallen"), overfitting)
        return (*certain, overfitting, Suspicion(Cause.WRONG_LABELS))

    def _judge(self, window: Window, evaluated: Column, trained: Column) -> Finding | None:
        steps, means, errors, training = by_evaluation(evaluated, trained)
        series = tuple([(int(s), float(v)) for s, v in zip(steps[-20:], means[-20:], strict=True)])
        lost = lost_again(means, training, patience=self.patience_evaluations, errors=errors)
        if lost is None or not lost.share > self.ratio_threshold or not _clearly(lost, self.ratio_threshold):
            return self._unshared(window, evaluated, trained, (steps, means, training))
        return Finding(
            subject=evaluated.tensor,
            worker=evaluated.worker,
            step=window.step,
            since_step=int(steps[lost.best]),
            measure=LOST,
            observed=lost.share,
            relation=">",
            threshold=self.ratio_threshold,
            statistics={
                "lowest": lost.lowest,
                "now": lost.now,
                "best_step": float(steps[lost.best]),
                "validation_gain": lost.validation_gain,
                "training_gain": lost.training_gain,
            },
            series=series,
        )

    def _unshared(
        self,
        window: Window,
        evaluated: Column,
        trained: Column,
        evaluations: tuple[NDArray[np.int64], Losses, Losses],
    ) -> Finding | None:
        steps, means, training = evaluations
        first = float(np.median(finite(trained)[1][:_FIRST])) if len(means) else 0.0
        shared = shared_of(means, training, first=first, most=self.shared_gain)
        if shared is None:
            return None
        best = int(np.argmin(means))
        return Finding(
            subject=evaluated.tensor,
            worker=evaluated.worker,
            step=window.step,
            since_step=int(steps[best]),
            measure=UNSHARED,
            observed=shared,
            relation="<",
            threshold=self.shared_gain,
            statistics={
                "lowest": float(means[best]),
                "now": float(means[-1]),
                "best_step": float(steps[best]),
                "validation_gain": first - float(means[best]),
                "training_gain": first - float(training[-1]),
            },
            series=tuple([(int(s), float(v)) for s, v in zip(steps[-20:], means[-20:], strict=True)]),
        )


def shared_of(evaluated: Losses, trained: Losses, *, first: float, most: float) -> float | None:
    """The share of the training's gain that the validation losses saw, where that is less than `most`; else None.

    Both of shape (n,), one loss per evaluation, oldest first; `first` is the loss that the training began with. None
    too where there is too little to tell, or a loss is negative.
    """
    if len(evaluated) < _MANY_EVALUATIONS or min(trained.min(), evaluated.min()) < 0:
        return None
    tenth = max(_NEWEST, len(evaluated) // 10)
    now, validated = float(np.median(trained[-tenth:])), float(np.median(evaluated[-tenth:]))
    gain, seen = first - now, first - validated
    if gain <= 0 or first <= 0 or now > float(trained.min()) + _NEAR_ITS_LOWEST * first:
        return None
    has_nothing = (
        validated > _HARDLY_BETTER * first
        and validated > (1 - _NOTHING) * float(evaluated[0])
        and now < _BARELY_LEARNED * float(trained[0])
    )
    share = seen / gain
    has_little = now < _MOSTLY_LEARNED * first and share < most and (share < most / 2 or not _still_gains(evaluated))
    return min(share, most * (1 - _NOTHING)) if has_nothing or has_little else None


def _still_gains(evaluated: Losses) -> bool:
    """True where the best of the evaluations is one of the newest tenth, or these are below those before by 2 %."""
    tenth = max(_NEWEST, len(evaluated) // 10)
    before = float(np.median(evaluated[-3 * tenth : -tenth]))
    is_newest = int(np.argmin(evaluated)) >= len(evaluated) - tenth
    return is_newest or float(np.median(evaluated[-tenth:])) < (1 - _NOTHING) * before


@dataclass(frozen=True)
class Lost:
    """What was lost again: `share` of the gain; `best` is the index of the evaluation with the `lowest` loss."""

    share: float
    best: int
    lowest: float
    now: float
    validation_gain: float
    training_gain: float


def lost_again(evaluated: Losses, trained: Losses, *, patience: int, errors: Losses | None = None) -> Lost | None:
    """How much of what was learned the validation losses have lost again; None if it is nothing, or not certain.

    `evaluated` and `trained`: one validation and one training loss per evaluation, oldest first, shape (n,); `errors`
    are the standard errors of `evaluated`.
    """
    if len(evaluated) < max(_FEWEST_EVALUATIONS, patience + 1):
        return None
    best = int(np.argmin(evaluated))
    long = max(patience, round(_LONG * len(evaluated)))
    lowest, newest = float(evaluated[best]), evaluated[-long:]
    if best >= len(evaluated) - long:
        return None
    now = float(newest.min())
    validation_gain, training_gain = float(evaluated[0]) - lowest, float(trained[0] - trained[-1])
    gain = max(validation_gain, training_gain)
    error = 0.0 if errors is None else math.hypot(float(errors[best]), float(errors[-patience:].max()))
    still_falls = float(trained[best] - np.median(trained[-patience:])) > _TRAINING_STILL_FALLS * gain
    if not gain > 0 or not still_falls or not now - lowest > max(2 * error, _NOISES * noise_of(evaluated[best:])):
        return None
    return Lost((now - lowest) / gain, best, lowest, now, validation_gain, training_gain)


def noise_of(evaluated: Losses) -> float:
    """By how much evaluations differ from what lies between their neighbours (median); 0 for fewer than five.

    `evaluated`: shape (n,). The standard deviation, were they normal: a second difference has sqrt(6) times that.
    """
    if len(evaluated) < 5:
        return 0.0
    return 1.4826 * float(np.median(np.abs(np.diff(evaluated, n=2)))) / math.sqrt(6)


def by_evaluation(evaluated: Column, trained: Column) -> tuple[NDArray[np.int64], Losses, Losses, Losses]:
    """(last step, mean, standard error, training loss) of each evaluation, oldest first, each of shape (n,).

    An evaluation is what was evaluated between two training steps; its training loss is the median of those since the
    evaluation before (or of the first after it, where the training began with an evaluation).
    """
    steps, losses = finite(evaluated)
    trained_steps, trained_losses = finite(trained)
    if not steps.size or not trained_steps.size:
        return np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0)
    before = np.searchsorted(trained_steps, steps)
    starts = np.flatnonzero(np.diff(before, prepend=-1))
    counts = np.diff(starts, append=len(steps))
    means = np.add.reduceat(losses, starts) / counts
    squares = np.add.reduceat((losses - np.repeat(means, counts)) ** 2, starts)
    errors = np.sqrt(squares / np.maximum(counts - 1, 1) / counts)
    ends = before[starts]
    training = [
        float(np.median(trained_losses[max(0, start) : end])) if end else float(trained_losses[0])
        for start, end in zip((0, *ends[:-1]), ends, strict=True)
    ]
    return steps[starts + counts - 1], means, errors, np.array(training)


def _clearly(lost: Lost, threshold: float) -> bool:
    """True unless the loss rose by little compared with itself; what is below zero has no such measure."""
    return lost.lowest <= 0 or lost.now > (1 + threshold) * lost.lowest


def _only_one(trained: dict[tuple[str, str], Column], worker: str) -> Column | None:
    """The only training loss of a worker, where the evaluation computes its loss in another way."""
    own = [column for (of, _), column in trained.items() if of == worker]
    return own[0] if len(own) == 1 else None
