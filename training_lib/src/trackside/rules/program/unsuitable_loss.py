"""unsuitable-loss: a loss function that is given what it does not expect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.verdict import Finding, Severity
from trackside.records.model_facts import LossFacts
from trackside.rules.diagnosis import has_several_aims, training_losses
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

SIGN, BELOW_ZERO, ONE_CLASS = (
    "factor of the loss",
    "loss that cannot be negative",
    "classes",
)
_NEVER_NEGATIVE = (
    "CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss",
    "HingeEmbeddingLoss", "MarginRankingLoss", "MultiMarginLoss", "TripletMarginLoss", "SoftMarginLoss",
)  # fmt: skip


@dataclass(frozen=True)
class UnsuitableLoss(Rule):
    """A loss function is given what it does not expect.

    Why it matters:
        Loss functions take numbers of any meaning and return a number. Scores where log-probabilities belong, a single
        output where classes belong, a minus where none belongs: the number falls, or stands at zero, and the model
        learns something else or nothing.

    How it decides:
        With what the hook tells of the training's losses and their values so far, for losses of the framework that
        cannot be negative (cross entropy, squared and absolute errors, margins):

        1. Sign: the loss is multiplied by a negative number before `backward`. Programs with several optimizers are
           left out: a generator may well maximise the loss of the other.
        2. Below zero: the median of the newest `steps` losses is negative. For NLLLoss that means that it was given
           scores, not log-probabilities.
        3. One class: cross entropy over a single output, which is zero whatever the model says.

        A loss that was written by hand has no known range and is left alone. Amazon's Debugger has no such rule.

    What to do:
        Look up what the loss expects: CrossEntropyLoss takes scores, NLLLoss log-probabilities, BCEWithLogitsLoss one
        score per yes-or-no question. Minimise; write the minus where the loss is defined.

    Example:
        ```python
        from trackside.records.model_facts import LossFacts
        from trackside.rules.program.unsuitable_loss import misuse

        good = LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", class_count=10)
        assert misuse(good, level=2.3, has_several_aims=False) is None
        one = LossFacts("CrossEntropyLoss_output_0", "CrossEntropyLoss", class_count=1)
        assert misuse(one, level=0.0, has_several_aims=False).measure == "classes"
        flipped = LossFacts("MSELoss_output_0", "MSELoss", scale=-1.0)
        assert misuse(flipped, level=1.0, has_several_aims=False).measure == "factor of the loss"
        ```

    References:
        - PyTorch, `torch.nn`: loss functions, what each expects.
        - TheDeepChecker (TOSEM 2022): flipped signs and wrong losses among its planted faults.
    """

    rule_id = "unsuitable-loss"
    watches = ("losses",)
    save_interval = 500
    needs = ()
    paced = True
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.WRONG_LOSS, Cause.LOSS_SIGN)
    what_to_do = (
        "Look up what the loss expects: scores, log-probabilities or probabilities, and which shapes.",
        "Minimise, and write the minus where the loss is defined.",
    )

    steps: int = parameter(5, "newest losses whose median must be negative", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """One finding per loss."""
        facts = window.facts
        if facts is None:
            return []
        several = has_several_aims(window)
        found = []
        for column in training_losses(window):
            loss = facts.loss(column.tensor)
            level = float(np.median(column.values[-self.steps :])) if len(column.values) >= self.steps else 0.0
            wrong = misuse(loss, level=level, has_several_aims=several) if loss is not None else None
            if loss is not None and wrong is not None:
                found.append(self._finding(window, column, loss, wrong))
        return found

    def lacks(self, window: Window) -> str:
        """What the hook tells of the program's losses."""
        if window.facts is None or not window.facts.losses:
            return "what a hook of this version tells of the program (its losses)"
        return ""

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """The sign, or the loss."""
        lead = findings[0]
        wrong_loss = Suspicion(Cause.WRONG_LOSS, lead.comparison)
        if lead.measure == SIGN:
            return (Suspicion(Cause.LOSS_SIGN, lead.comparison),)
        return (wrong_loss, Suspicion(Cause.LOSS_SIGN)) if lead.measure == BELOW_ZERO else (wrong_loss,)

    def _finding(self, window: Window, column: Column, loss: LossFacts, wrong: Misuse) -> Finding:
        return Finding(
            subject=column.tensor,
            worker=column.worker,
            step=window.step,
            since_step=int(column.steps[0]),
            measure=wrong.measure,
            observed=wrong.observed,
            relation="<",
            threshold=wrong.threshold,
            series=column.series,
            place=loss.line,
        )


@dataclass(frozen=True)
class Misuse:
    """How a loss is misused, in the words of a finding; `observed` is below `threshold`."""

    measure: str
    observed: float
    threshold: float


def misuse(loss: LossFacts, *, level: float, has_several_aims: bool) -> Misuse | None:
    """How a loss whose value is `level` is misused; None if nothing speaks for that."""
    if loss.type_name not in _NEVER_NEGATIVE:
        return None
    if loss.type_name in {"CrossEntropyLoss", "NLLLoss"} and loss.class_count == 1:
        return Misuse(ONE_CLASS, 1.0, 2.0)
    if loss.scale < 0 and not has_several_aims:
        return Misuse(SIGN, loss.scale, 0.0)
    return Misuse(BELOW_ZERO, level, 0.0) if level < 0 and loss.scale > 0 else None
