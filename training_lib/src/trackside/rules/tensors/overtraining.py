"""overtraining: training goes on although nothing gets better any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import A_HANDFUL, PARTLY_LEARNED, TRAILING
from trackside.situation.losses.evaluations import starts_of_evaluations
from trackside.situation.losses.losses import finite, training_losses
from trackside.situation.phases import newest_phase, since
from trackside.trial.rests import Rests
from trackside.trial.window import Column, Window

Losses = NDArray[np.float64]


@dataclass(frozen=True)
class Overtraining(Rule):
    """Neither the training loss nor the validation loss has improved for a long time.

    Why it matters:
        The model has learned what it will learn. Further steps cost money, and sooner or later make it worse on data
        that it has not seen.

    How it decides:
        For each loss that is above zero throughout, and still computed, since the newest optimizer was made:

        1. The training loss is averaged over windows of 50 steps, the validation loss over each evaluation (as in
           `overfit`). A window or evaluation improves where its mean is below the best before it by more than `delta`
           of what was gained until then: the first mean less the best.
        2. The training loss is at rest where no window has improved for `patience_train` steps, and the validation loss
           where none of the newest `patience_validation` evaluations has. Both rests must be longer than half of what
           came before.
        3. It fires where both are at rest; where there are no evaluations, where the training loss is. Something must
           have been learned before: a fifth of the first loss at least.

        It only informs: a run that ends at rest has done nothing wrong. The verdict names the step of the newest
        improvement, after which the training could have ended. It recovers where the loss falls on, as after the next
        decay of the learning rate.

        Amazon's Overtraining has an absolute `delta` of 0.01 and a patience of 5 and 10 saved steps, which most sound
        runs exceed; it is the preset `aws-docs`.

        In a run that is watched in bursts, `patience_train` counts watched steps.

    Example:
        ```python
        import numpy as np
        from trackside.rules.tensors.overtraining import newest_improvement

        assert newest_improvement(np.array([2.0, 1.0, 0.5, 0.499, 0.5, 0.498]), delta=0.01) == 2
        assert newest_improvement(np.array([2.0, 1.0, 0.5, 0.4, 0.3, 0.2]), delta=0.01) == 5
        ```

    References:
        - Prechelt: Early Stopping - But When? (1998).
        - Amazon SageMaker Debugger, built-in rule Overtraining: the parameters.
    """

    rule_id = "overtraining"
    code = "TS109"
    watches = ("losses",)
    save_interval = 10
    needs = ()
    paced = True
    patience = 2
    severity = Severity.INFO
    since = "0.1"
    likely_causes = (Cause.CONVERGED,)
    suspects = (Suspect(Cause.CONVERGED, "no better loss since step {since_step}"),)
    shows_its_cause = True  # rest is what it finds; evidence of other causes is evidence of other problems
    what_to_do = (
        "End the training at the step of the newest improvement, by early stopping or fewer epochs.",
        "Or, if it has not learned enough, lower the learning rate there: often the loss falls on.",
    )

    patience_train: int = parameter(1000, "steps without a better training loss", minimum=1)
    patience_validation: int = parameter(10, "evaluations without a better validation loss", minimum=1)
    delta: float = parameter(0.01, "share of the gain so far that counts as an improvement", minimum=0, maximum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per training loss and worker that is at rest."""
        found = []
        for trained in _present(window):
            rest = self._rest(window, trained)
            if rest is not None and not any(
                self._still_improves(evaluated, trained, window.rests(trained.worker))
                for evaluated in window.columns("losses", "mean", mode="EVAL")
            ):
                found.append(self._finding(window, trained, rest))
        return found

    def lacks(self, window: Window) -> str:
        """Name the missing input: enough steps."""
        steps = [len(column.steps) for column in training_losses(window)]
        return "" if max(steps, default=0) > self.patience_train else f"{self.patience_train} steps with a loss"

    def sentence(self, findings: Sequence[Finding]) -> str:
        """Return the number of steps that could have been saved, in a sentence."""
        lead = findings[0]
        return (
            f"Nothing has improved since step {lead.since_step}: the last {lead.step - lead.since_step:,} steps could "
            "have been saved."
        )

    def _rest(self, window: Window, trained: Column) -> int | None:
        """Return the step of the training loss's newest improvement; None if it is not at rest."""
        steps, means = by_window(trained)
        if len(means) < 2 or means.min() <= 0:
            return None
        first = max(float(means[0]), float(finite(trained)[1][0]))  # boosted trees learn most in the first window
        if (first - means.min()) / first < PARTLY_LEARNED:
            return None
        improved = int(steps[newest_improvement(means, delta=self.delta)])
        waited = window.watched_since(improved)
        is_at_rest = waited > self.patience_train and 2 * (window.step - improved) > improved - int(trained.steps[0])
        return improved if is_at_rest else None

    def _still_improves(self, evaluated: Column, trained: Column, rests: Rests) -> bool:
        """Return True if the validation loss has improved of late, or was computed too seldom to judge."""
        if evaluated.worker != trained.worker:
            return False
        means = by_evaluation(evaluated, trained, rests)
        if len(means) < A_HANDFUL:
            return True
        improved = newest_improvement(means, delta=self.delta)
        waited = len(means) - 1 - improved
        return waited < self.patience_validation or 2 * waited <= improved

    def _finding(self, window: Window, trained: Column, improved: int) -> Finding:
        return finding_of(
            window,
            trained,
            "steps without a better loss",
            float(window.step - improved),
            above=float(self.patience_train),
            since=improved,
            series=(),
        )


def _present(window: Window) -> list[Column]:
    """Return the training losses of the present phase. One that is computed no more has ended, and is not at rest."""
    columns = since(training_losses(window), newest_phase(window))
    newest = max((int(column.steps[-1]) for column in columns), default=0)
    return [column for column in columns if column.steps[-1] > newest - TRAILING]


def newest_improvement(losses: Losses, *, delta: float) -> int:
    """Return the index of the newest loss below the best before it by more than `delta` of the gain so far.

    `losses`: shape (n,), n >= 1, oldest first, all finite. 0 without an improvement.
    """
    first = best = float(losses[0])
    place = 0
    for index, loss in enumerate(losses.tolist()):
        if best - loss > delta * (first - best):
            best, place = loss, index
    return place


def by_window(column: Column) -> tuple[NDArray[np.int64], Losses]:
    """Return (last step, mean loss) of each whole window of steps, oldest first, over the finite losses."""
    steps, losses = finite(column)
    whole = len(losses) // TRAILING
    means = losses[: whole * TRAILING].reshape(whole, TRAILING).mean(axis=1)
    return steps[TRAILING - 1 : whole * TRAILING : TRAILING], np.asarray(means, np.float64)


def by_evaluation(evaluated: Column, trained: Column, rests: Rests) -> Losses:
    """Return the mean loss of each evaluation, oldest first.

    An evaluation has all losses between two training steps.
    """
    steps, losses = finite(evaluated)
    starts = starts_of_evaluations(steps, trained.steps, rests)
    if not starts.size:
        return np.empty(0)
    return np.asarray(np.add.reduceat(losses, starts) / np.diff(starts, append=len(losses)), np.float64)
