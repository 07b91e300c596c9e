"""unsuitable-loss: a loss function with arguments that it does not expect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts
from trackside.contracts.observations import (
    BEYOND_REACH,
    BLANK_LABELS,
    COMPARED_WITH,
    DIVERGENCE_OF,
    LEAST_SHARE,
    LOWERS_LIKELIHOOD,
    MARGIN,
    SEVERAL_CLASSES,
    TAKES_SCORES_FOR_PROBABILITIES,
)
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.causes import why_narrow
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.of_facts import LossRule
from trackside.rules.rule import parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import (
    ALL_BUT_A_FEW,
    ENOUGH_AT_MARGIN,
    ERRORS,
    GROWING,
    HARDLY_ANYTHING,
    LOSSES_OF_TWO_WINDOWS,
    MOST,
    NEGLIGIBLE_SHARE,
    RUNAWAY_WEIGHTS,
    TRACE,
    VALUES_OF_A_LEVEL,
)
from trackside.situation.losses.losses import training_losses
from trackside.situation.measurements import Evidence
from trackside.situation.medians import median
from trackside.trial.window import Column, Window

(
    SIGN, BELOW_ZERO, ONE_CLASS, BROADCAST, RUNAWAY, AT_MARGIN, LIKELIHOOD, REACH, ONE_SIDED, NO_PROBABILITIES,
    NO_LOGARITHMS, NARROW, SEVERAL, BLANK,
) = (
    "factor of the loss",
    "loss that cannot be negative",
    "classes",
    "share of the differences that are of a prediction and its own target",
    "loss over its largest size at first",
    "share of the margin that was gained",
    "factor of the negative log-likelihood",
    "share of the targets that the predictions can reach",
    "share of the scores below zero that reach the loss",
    "activations before a loss of probabilities",
    "log-probabilities before a divergence",
    "share of the loss of equal scores that can be won",
    "share of the targets that name one class",
    "share of the labels that are not the blank",
)  # fmt: skip
_MAY_BE_MEANT = {RUNAWAY, AT_MARGIN, LIKELIHOOD, REACH, ONE_SIDED, NO_LOGARITHMS, NARROW, SEVERAL}
_OF_SCORES = {"CrossEntropyLoss", "BCEWithLogitsLoss"}
_NEVER_NEGATIVE = (
    "CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss",
    "HingeEmbeddingLoss", "MarginRankingLoss", "MultiMarginLoss", "TripletMarginLoss", "SoftMarginLoss", "CTCLoss",
)  # fmt: skip


@dataclass(frozen=True)
class UnsuitableLoss(LossRule):
    """A loss function is given what it does not expect.

    Why it matters:
        Loss functions take numbers of any meaning and return a number. Scores where log-probabilities belong, a single
        output where classes belong, a minus where none belongs: the number falls, or stands at zero, and the model
        learns something else or nothing.

    How it decides:
        With the hook's facts about the training's losses and their values so far, for losses of the framework that
        cannot be negative (cross entropy, squared and absolute errors, margins):

        1. Sign: the loss is multiplied by a negative number before `backward`. Programs with several optimizers are
           left out: a generator may well maximise the loss of the other.
        2. Below zero: the median of the newest `steps` losses is negative. For NLLLoss and CTC that means that it was
           given scores, not log-probabilities.
        3. One class: cross entropy over a single output, which is zero whatever the model says.
        4. Broadcasting: a column of n predictions met a row of n targets, so that each prediction was compared with
           every target. Or each of k scores met the number of the class, as one target for all of them. Of losses by
           hand, too, and of programs with several optimizers, such as an actor and its critic.
        5. Running away, a warning only: what is minimised has fallen below -`runaway` times its largest size over the
           first steps, falls ever faster, and gradients or weights grow. A loss whose minimum is not where the model
           is right has the wrong sign; a likelihood of densities, a reward or an adversary's loss goes below zero too,
           but settles. Programs with several optimizers are left out. Of losses by hand, too.
        6. At the margin, a warning only: a triplet loss that takes the mean of max(0, near - far + margin) has over the
           newest half of at least 100 losses settled at its margin: at most 5 % above and 2 % below it (pairs of an
           example with itself take it a little below), with a spread of at most 10 %, and falling no more (by two
           standard errors). A model that separates nothing stands at the margin; one that is to bring
           like together gets below it at once, for like is nearer to like than to others in any space. Only one that is
           to drive like apart cannot: the best it can do is to make all alike.
        7. Likelihood, a warning only: in a loss by hand the log-probabilities of the chosen classes or actions enter
           with a plus, alone or times numbers of which none is negative, so that what is shown or rewarded is made less
           likely. Right for an agent whose numbers are costs, and for a model that is to forget. Programs with several
           optimizers are left out.
        8. Reach, a warning only: the model's last function keeps its predictions from the targets. Of a squared, Huber
           or absolute error, by hand too, more than 5 % of the first targets lie outside of the range of a ReLU,
           softplus, exponential, clamp, sigmoid, softmax or tanh. Or the scores of cross entropy come out of a ReLU (or
           another that ends at zero alone), or those of `BCEWithLogitsLoss` out of any that is never negative: no
           score can then count against a class, and what falls to zero gets no gradient.
        9. Probabilities: Keras's cross entropies expect probabilities unless they are told otherwise
           (`from_logits=True`), and the last layer has no activation.
        10. Logarithms, a warning only: `kl_div`, or the same by hand, is given probabilities or scores where it expects
           log-probabilities.
        11. Narrow scores, a warning only: the scores of cross entropy are cosines times a factor, and between -f and f
            it stays above log(1 + (n - 1) exp(-2 f)) of n classes, or labels are smoothed, and it stays above their
            entropy. With that, training can win less than `least` of what equal scores cost.
        12. Several classes, a warning only: cross entropy is given rows of zeros and ones as probabilities, and most
            rows name more than one class. Such targets are for `BCEWithLogitsLoss`, or are to be divided by their sum.
        13. The blank: a label of CTC has its number.

        Not seen: the flipped sign of a ranking, of a reward less a baseline or of a hinge on two classes is a sound
        loss of the opposite task, with the same numbers. A loss that was written by hand has no known range.

    Example:
        ```python
        from trackside.contracts.model_facts import LossFacts
        from trackside.rules.program.unsuitable_loss import misuse

        good = LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", class_count=10)
        assert misuse(good, level=2.3, has_several_aims=False) is None
        one = LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", class_count=1)
        assert misuse(one, level=0.0, has_several_aims=False).measure == "classes"
        ```

    References:
        - PyTorch, `torch.nn`: loss functions, what each expects.
        - TheDeepChecker (TOSEM 2022): flipped signs and wrong losses among its planted faults.
    """

    rule_id = "unsuitable-loss"
    code = "TS214"
    watches = ("losses",)
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.WRONG_LOSS, Cause.LOSS_SIGN)
    suspects = (
        Suspect(Cause.LOSS_SIGN, "it falls ever faster below zero, and gradients grow", (RUNAWAY,)),
        Suspect(Cause.LOSS_SIGN, "log-probabilities enter the loss with a plus", (LIKELIHOOD,)),
        Suspect(
            Cause.LOSS_SIGN,
            "the loss settles at its margin and not below it, as where like is driven apart",
            (AT_MARGIN,),
        ),
        Suspect(Cause.LOSS_SIGN, "{comparison}", (SIGN,)),
        Suspect(Cause.WRONG_LOSS, "the model's last function keeps it from the targets", (REACH, ONE_SIDED)),
        Suspect(Cause.WRONG_LOSS, "a label has the number of its blank: count labels from 1", (BLANK,)),
        Suspect(Cause.DEAD_UNITS, only=(REACH, ONE_SIDED)),
        Suspect(Cause.WRONG_LOSS, "it expects probabilities and gets scores: from_logits=True", (NO_PROBABILITIES,)),
        Suspect(
            Cause.WRONG_LOSS, "a divergence is given probabilities or scores, not their logarithms", (NO_LOGARITHMS,)
        ),
        Suspect(Cause.WRONG_LOSS, why_narrow, (NARROW,)),
        Suspect(Cause.WRONG_LOSS, "most rows of its targets name several classes, and it is for one", (SEVERAL,)),
        Suspect(Cause.WRONG_LOSS, "{comparison}", (RUNAWAY, LIKELIHOOD, BELOW_ZERO, ONE_CLASS, BROADCAST)),
        Suspect(Cause.LOSS_SIGN, only=(BELOW_ZERO,)),
    )
    what_to_do = (
        "Look up what the loss expects: scores, log-probabilities or probabilities, and which shapes.",
        "Minimise, and write the minus where the loss is defined.",
    )

    steps: int = parameter(5, "newest losses whose median must be negative", minimum=1)
    least: float = parameter(1 / 3, "share of the loss of equal scores that training can win", minimum=0, maximum=1)
    runaway: float = parameter(10.0, "how many times its first size a loss must be below zero to run away", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per loss."""
        facts = window.facts
        if facts is None:
            return []
        several = has_several_aims(window) or any(p.optimizer and not p.module for p in facts.parameters)
        found = []
        for column in training_losses(window):
            loss = facts.loss(column.tensor)
            level = median(column.values[-self.steps :]) if len(column.values) >= self.steps else 0.0
            wrong = misuse(loss, level=level, has_several_aims=several) if loss is not None else None
            if wrong is None and not several and runs_away(column.values, times=self.runaway) and _grows(window):
                wrong = Misuse(RUNAWAY, _in_first_sizes(column.values), -self.runaway)
            if loss is not None and wrong is None and 1 - LEAST_SHARE.of(loss) < self.least:
                wrong = Misuse(NARROW, 1 - LEAST_SHARE.of(loss), self.least)
            margin = MARGIN.of(loss) if wrong is None and loss is not None else 0.0
            if margin and settled_at(column.values, margin=margin):
                wrong = Misuse(AT_MARGIN, 1 - float(np.mean(_newest_half(column.values))) / margin, TRACE)
            if loss is not None and wrong is not None:
                found.append(self._finding(window, column, loss, wrong))
        return found

    def _finding(self, window: Window, column: Column, loss: LossFacts, wrong: Misuse) -> Finding:
        return finding_of(
            window,
            column,
            wrong.measure,
            wrong.observed,
            below=wrong.threshold,
            since=int(column.steps[0]),
            place=loss.line,
            grade=Severity.WARNING if wrong.measure in _MAY_BE_MEANT else Severity.CRITICAL,
        )


@dataclass(frozen=True)
class Misuse:
    """The misuse of a loss, in the fields of a finding. `observed` is below `threshold`."""

    measure: str
    observed: float
    threshold: float


def misuse(loss: LossFacts, *, level: float, has_several_aims: bool) -> Misuse | None:
    """Return the misuse of a loss with the value `level`; None without evidence of one."""
    if others := COMPARED_WITH.of(loss):
        return Misuse(BROADCAST, 1 / others, 1.0)
    if LOWERS_LIKELIHOOD.of(loss) and not has_several_aims:
        return Misuse(LIKELIHOOD, -1.0, 0.0)
    if loss.type_name not in _NEVER_NEGATIVE:
        return _beside_its_targets(loss)
    if loss.type_name in {"CrossEntropyLoss", "NLLLoss"} and loss.class_count == 1:
        return Misuse(ONE_CLASS, 1.0, 2.0)
    if TAKES_SCORES_FOR_PROBABILITIES.of(loss) or (loss.scale < 0 and not has_several_aims):
        is_sign = not TAKES_SCORES_FOR_PROBABILITIES.of(loss)
        return Misuse(SIGN, loss.scale, 0.0) if is_sign else Misuse(NO_PROBABILITIES, 0.0, 1.0)
    return Misuse(BELOW_ZERO, level, 0.0) if level < 0 and loss.scale > 0 else _beside_its_targets(loss)


def _beside_its_targets(loss: LossFacts) -> Misuse | None:
    if BLANK_LABELS.of(loss):
        return Misuse(BLANK, 1 - BLANK_LABELS.of(loss), 1.0)
    if DIVERGENCE_OF.of(loss):
        return Misuse(NO_LOGARITHMS, 0.0, 1.0)
    if SEVERAL_CLASSES.of(loss) > MOST:
        return Misuse(SEVERAL, 1 - SEVERAL_CLASSES.of(loss), MOST)
    if 1 - BEYOND_REACH.of(loss) >= ALL_BUT_A_FEW:
        return None
    is_of_scores = loss.type_name in _OF_SCORES
    return Misuse(ONE_SIDED, 0.0, 1.0) if is_of_scores else Misuse(REACH, 1 - BEYOND_REACH.of(loss), ALL_BUT_A_FEW)


def runs_away(losses: NDArray[np.float64], *, times: float) -> bool:
    """Return True if losses (oldest first, shape (n,)) fall below zero, far and ever faster.

    Far: below -`times` times their largest size over the first ten. Faster: more over the newest third than over the
    third before.
    """
    if len(losses) < LOSSES_OF_TWO_WINDOWS or not np.isfinite(losses).all() or not _in_first_sizes(losses) < -times:
        return False
    third = len(losses) // 3
    old, middle, new = (median(part) for part in (losses[:third], losses[third:-third], losses[-third:]))
    return middle - new > max(old - middle, 0.0)


def settled_at(losses: NDArray[np.float64], *, margin: float) -> bool:
    """Return True if the newest half of the losses lies at the margin and no longer falls.

    `losses`: oldest first, shape (n,).
    """
    newest = _newest_half(losses)
    if len(losses) < ENOUGH_AT_MARGIN or not np.isfinite(newest).all():
        return False
    spread, above = float(newest.std()), float(newest.mean()) - margin
    is_near = -HARDLY_ANYTHING <= above / margin <= TRACE and spread <= NEGLIGIBLE_SHARE * margin
    half = len(newest) // 2
    fall = float(newest[:half].mean() - newest[half:].mean())
    return is_near and fall <= ERRORS * spread * np.sqrt(2 / half)


def _newest_half(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    return losses[len(losses) // 2 :]


def _in_first_sizes(losses: NDArray[np.float64]) -> float:
    first = float(np.abs(losses[:VALUES_OF_A_LEVEL]).max())
    return median(losses[-VALUES_OF_A_LEVEL:]) / first if first > 0 else 0.0


def _grows(window: Window) -> bool:
    seen = Evidence(window)
    return (seen.gradient_growth or 0.0) > GROWING or (seen.weight_growth or 0.0) > RUNAWAY_WEIGHTS
