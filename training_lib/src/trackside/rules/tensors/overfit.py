"""overfit: the model gets better on the training data and worse on the validation data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.causes import MOVES_WILDLY
from trackside.evidence.question import Answer, Known
from trackside.evidence.suspects import Suspect
from trackside.rules.advice import Advice, Concerns
from trackside.rules.details import Details
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import (
    A_HANDFUL,
    A_TENTH_MORE,
    GAIN,
    HALF_AS_MUCH_AGAIN,
    HARDLY_BELOW_GUESSING,
    JUST_ABOVE_GUESSING,
    KEPT_TO_ITSELF,
    MANY_EVALUATIONS,
    MOST,
    NEWEST,
    SEVERAL,
    TENFOLD,
    THIRD_IS_LEFT,
    TWICE,
)
from trackside.situation.losses.evaluations import Evaluations, by_evaluation, training_of
from trackside.situation.losses.guessing import Guess, best_guess
from trackside.situation.losses.losses import training_losses
from trackside.situation.losses.overfitting import (
    Lost,
    has_clearly_lost,
    is_near_guessing,
    is_of_other_labels,
    lost_again,
    shared_of,
)
from trackside.situation.medians import median
from trackside.situation.phases import newest_training, since
from trackside.trial.window import Column, Window

LOST, UNSHARED = "share of the gain lost on validation data", "share of the gain seen on validation data"


@dataclass(frozen=True)
class Gains(Details):
    """Details of a finding.

    lowest, now      lowest validation loss, and that of now
    best_step        step of the lowest
    validation_gain, training_gain   what was learned on either data
    kept_to_itself   share of the training's gain that validation data lack
    guessing         loss of a guess; None where it is unknown
    """

    lowest: float = 0.0
    now: float = 0.0
    best_step: int = 0
    validation_gain: float = 0.0
    training_gain: float = 0.0
    kept_to_itself: float = 0.0
    guessing: float | None = None


def _never_better(known: Known) -> Answer:
    """Return the evidence that nothing was learned but the labels of the training."""
    gains = Gains.of(known.lead)
    guessing = gains.guessing
    if guessing is None:
        has_none = gains.validation_gain < GAIN * gains.training_gain
        return "the validation loss has never fallen" if has_none else False
    if not is_near_guessing(guessing, lowest=gains.lowest, now=gains.now):
        return False
    if gains.lowest > TWICE * guessing:
        costs = f"the validation loss was never below {gains.lowest:.3g}, and guessing costs {guessing:.3g}"
        return f"{costs}: are its labels coded as those of the training?"
    return f"the validation loss was never clearly better than guessing ({guessing:.3g})"


@dataclass(frozen=True)
class Overfit(Rule):
    """The validation loss rises while the training loss goes on falling.

    Why it matters:
        From here on the model memorises the training data. Each further step costs money and makes it worse on
        anything it has not seen; the best model was some steps ago.

    How it decides:
        Losses of steps in mode EVAL are validation losses; the hook finds them by `model.eval()`.

        1. An evaluation k holds all validation losses between two training steps: E_k is their mean, and T_k the median
           of the training losses since the evaluation before. T_first is the median of the first three of all.
        2. Let b be the evaluation with the lowest E. The gain is G = max(E_0 - E_b, T_0 - T_now): what was learned, on
           either data.
        3. Lost again is r = (E_now - E_b) / G, with E_now the lowest of the newest `patience_evaluations`, all of them
           after b, and of the newest fifth of all evaluations: a few bad ones do not count. Kept to itself by the
           training data is u = (E_now - T_now) / (T_first - T_now).
        4. It fires where r > `ratio_threshold` and E_now > (1 + `ratio_threshold`) E_b for positive losses; or where
           r > 0.05 and u > 1/3: a small rise, where a third of what was learned never reached the validation data; or
           where r > 0.05 and E_now > 10 E_b for positive losses, as with labels of another scale;
           or where r > `ratio_threshold` and E_now is 5 % above the loss of guessing, and E_b no 8 % below it.
        5. In both cases the training loss must have gone on falling since b (by more than 2 % of G), and the rise be no
           noise: E_now - E_b is more than two of its standard errors where evaluations hold several batches (of the
           differences batch by batch, where these are as many and three at least), and more than three times what
           neighbouring evaluations since b differ by (median, of the second differences).
        6. It also fires where the validation data never shared what was learned: the training loss has lost most of its
           first value (70 %), and the validation loss less than `shared_gain` of what the training loss lost, and gains
           nothing more (or less than half of that).
        7. Or it was never better than guessing: the training loss has lost a twentieth since the first evaluation, the
           validation loss nothing, and that is above 90 % of the loss of the best constant answer (the entropy of the
           classes, the variance of what is to be met; from the labels that were saved). A run that begins with a good
           checkpoint is far below that. Where nobody knows that level (a loss by hand), the validation loss must have
           certainly risen. Both 6 and 7 need eight evaluations.
           Neither fires where the validation loss has fallen since the first evaluation by at least `shared_gain` of
           what the training loss lost since then, if that is a tenth of all it lost: some losses stand higher on
           larger batches (contrastive ones, partial likelihoods), and what was learned shows in their fall alone.
        8. Or the run has ended, two evaluations and more were all above 1.5 times the loss of the best constant answer
           to classes, and the training loss is below half of it, as with labels of another code.
        9. Or two evaluations and more were all above ten times T_first, with labels of another size than in training.
        10. A training of another model in the same process (the next fold, trial or member) begins anew. To train on to
           a loss of zero is no fault: as long as the validation loss stays near its best, the model is as good as ever.

        Two healthy cases look like a fault: a network that first memorises and understands much later (grokking), and
        validation data so different on purpose that most of what is learned is of no use.

        Amazon's Overfit compares levels: (mean validation loss - mean training loss) / mean training loss > 0.1. A
        model with dropout, or one that fits its training data well and still gets better on others, exceeds that in
        nearly every healthy run; the documented rule is the preset `aws-docs`.

    Example:
        ```python
        import numpy as np
        from trackside.situation.losses.overfitting import lost_again

        training = np.array([2.3, 1.0, 0.5, 0.2, 0.1, 0.05])
        assert lost_again(np.array([2.3, 1.4, 1.2, 1.5, 1.7, 1.9]), training, patience=3).share > 0.1
        assert lost_again(np.array([2.3, 1.4, 1.2, 1.1, 1.05, 1.04]), training, patience=3) is None
        ```

    References:
        - Prechelt: Early Stopping - But When? (1998): generalisation loss, the rise over the lowest validation loss.
        - Zhang et al.: Understanding deep learning requires rethinking generalization (2017): labels learned by heart.
        - Amazon SageMaker Debugger, built-in rule Overfit: the parameters.
    """

    rule_id = "overfit"
    code = "TS108"
    watches = ("losses",)
    save_interval = 10
    needs = ()
    paced = True
    severity = Severity.WARNING  # the best checkpoint stands: what follows costs time, not the result
    since = "0.1"
    likely_causes = (Cause.OVERFITTING, Cause.WRONG_LABELS)
    suspects = (
        *MOVES_WILDLY,
        Suspect(Cause.WRONG_LABELS, _never_better),
        Suspect(Cause.OVERFITTING, "validation loss {lowest:.3g} at best, {now:.3g} now"),
    )
    what_to_do = (
        "Keep the checkpoint of the lowest validation loss, and stop there.",
        Advice(
            "For a better model: more data or augmentation, dropout, weight decay, or fewer parameters.", Concerns.LOOPS
        ),
        Advice(
            "Of trees: a smaller depth, more rows to a leaf, a lower learning rate, and rounds that stop early.",
            Concerns.TREES,
        ),
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
        """Return one finding per loss and worker that overfits."""
        began = newest_training(window)
        named = window.columns("losses", "mean", mode="EVAL")
        evaluated, trained = since(named, began), since(training_losses(window), began)
        found = []
        for column in evaluated:
            training = training_of(column, trained)
            if training is not None and (finding := self._judge(window, column, training)) is not None:
                found.append(finding)
        return found

    def lacks(self, window: Window) -> str:
        """Name the missing input: a few evaluations in mode EVAL, or the training loss that belongs to them."""
        missing = f"{A_HANDFUL} evaluations of the model in eval mode, with a loss"
        trained = training_losses(window)
        for name in window.tensors("losses"):
            for column in window.statistic(name, "mean", mode="EVAL"):
                own = training_of(column, trained)
                if own is not None and _has_evaluations(window, column, own):
                    return ""
                if own is None and any(_has_evaluations(window, column, other) for other in trained):
                    missing = f"one training loss to compare {name} with, or one of that name"
        return missing

    def _judge(self, window: Window, evaluated: Column, trained: Column) -> Finding | None:
        seen = by_evaluation(evaluated, trained, window.rests(trained.worker))
        if seen is None:
            return None
        lost = lost_again(seen.means, seen.training, patience=self.patience_evaluations, batches=seen.batches)
        is_fault = lost is not None and self._is_fault(lost, seen)
        # Reading labels takes time, and a validation loss of which much is gone is better than guessing
        is_level_needed = is_fault or (
            len(seen.means) >= MANY_EVALUATIONS and float(seen.means.min()) > MOST * float(seen.means[0])
        )
        guess = best_guess(window, trained.tensor, worker=trained.worker) if is_level_needed else None
        if is_fault or (lost is not None and guess is not None and self._is_worse_than(guess, lost)):
            return self._finding(window, seen, evaluated, guess=guess, lost=lost)
        shared = shared_of(seen, most=self.shared_gain, guess=guess)
        if shared is None and is_of_other_labels(window, seen, trained):
            guess = best_guess(window, trained.tensor, worker=trained.worker)
            shared = min(0.0, seen.first - float(seen.means.min()))
        if shared is None and window.is_last and (guess := _ended_above_guessing(window, seen, trained)) is not None:
            shared = min(0.0, seen.first - float(seen.means.min()))
        return None if shared is None else self._finding(window, seen, evaluated, guess=guess, shared=shared)

    def _is_fault(self, lost: Lost, seen: Evaluations) -> bool:
        if lost.share > self.ratio_threshold and has_clearly_lost(lost, self.ratio_threshold):
            return True
        is_memorised = median(seen.training[-NEWEST:]) < THIRD_IS_LEFT * seen.first
        has_turned = lost.share > GAIN and lost.now > A_TENTH_MORE * lost.lowest > 0
        if has_turned and lost.now > TENFOLD * lost.lowest:
            return True
        return has_turned and is_memorised and seen.unshared(lost.now) > KEPT_TO_ITSELF

    def _is_worse_than(self, guess: Guess, lost: Lost) -> bool:
        """Return True if the validation loss was hardly ever better than guessing, and is worse now."""
        is_lost = lost.share > self.ratio_threshold and lost.now > JUST_ABOVE_GUESSING * guess.loss
        return is_lost and guess.is_of_classes and lost.lowest > HARDLY_BELOW_GUESSING * guess.loss

    def _threshold(self, lost: Lost | None) -> float:
        if lost is None:
            return self.shared_gain
        return self.ratio_threshold if lost.share > self.ratio_threshold else GAIN

    def _finding(
        self,
        window: Window,
        seen: Evaluations,
        evaluated: Column,
        *,
        guess: Guess | None,
        lost: Lost | None = None,
        shared: float = 0.0,
    ) -> Finding:
        best = int(np.argmin(seen.means))
        lowest = float(seen.means[best])
        return Finding(
            subject=evaluated.tensor,
            worker=evaluated.worker,
            step=window.step,
            since_step=int(seen.steps[best]),
            measure=UNSHARED if lost is None else LOST,
            observed=shared if lost is None else lost.share,
            relation="<" if lost is None else ">",
            threshold=self._threshold(lost),
            statistics=Gains(
                lowest=lowest,
                now=float(seen.means[-1]) if lost is None else lost.now,
                best_step=int(seen.steps[best]),
                validation_gain=(seen.first if lost is None else float(seen.means[0])) - lowest,
                training_gain=(seen.first if lost is None else float(seen.training[0])) - float(seen.training[-1]),
                kept_to_itself=seen.unshared(float(seen.means[-1])),
                guessing=None if guess is None else guess.loss,
            ).numbers(),
            series=tuple([(int(s), float(v)) for s, v in zip(seen.steps[-20:], seen.means[-20:], strict=True)]),
        )


def _has_evaluations(window: Window, evaluated: Column, trained: Column) -> bool:
    """Return True with evaluations enough to judge, between the steps of this training loss."""
    seen = by_evaluation(evaluated, trained, window.rests(trained.worker))
    return seen is not None and len(seen.means) >= A_HANDFUL


def _ended_above_guessing(window: Window, seen: Evaluations, trained: Column) -> Guess | None:
    """Return the guess of classes that no evaluation came near, though the training is far below it; else None."""
    if len(seen.means) < SEVERAL:
        return None
    guess = best_guess(window, trained.tensor, worker=trained.worker)
    if guess is None or not guess.is_of_classes or not seen.means.min() > HALF_AS_MUCH_AGAIN * guess.loss:
        return None
    return guess if seen.training[-1] < MOST * guess.loss else None
