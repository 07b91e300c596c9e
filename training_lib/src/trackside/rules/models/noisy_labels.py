"""noisy-labels: the training loss stays far above that of the evaluations, as with labels that are partly wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.observations import DROPOUTS
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.aims import has_several_aims
from trackside.situation.constants import MANY_EVALUATIONS, NEWEST
from trackside.situation.losses.evaluations import Evaluations, by_evaluation, training_of
from trackside.situation.losses.guessing import best_guess
from trackside.situation.losses.losses import training_losses
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class NoisyLabels(Rule):
    """The training loss stays far above the loss of the evaluations, and dropout does not explain it.

    Why it matters:
        Of training labels that are partly wrong a model learns the right part, and pays for the rest at every batch. An
        evaluation of right labels shows it by a loss far below that of the training. The model is less sure than it
        could be, and learns the wrong labels by heart if it trains for long.

    How it decides:
        For cross entropies of classes with saved labels, without weights, and with an evaluation:

        1. Each of the newest three evaluations that training followed has a mean loss below `share` of the median
           training loss after it.
        2. That training loss is still above `level` of what the best constant answer costs, and below it: something is
           learned.
        3. No dropout drops more than `dropout` of its values: it weakens the model in the training alone.
        4. After eight evaluations, or at the end of a run. Programs with several optimizers are left out.

        Training data that are augmented or mixed beyond recognition look the same; leave the rule out there.

    Example:
        ```python
        from trackside.rules.models.noisy_labels import NoisyLabels

        assert NoisyLabels().share == 0.7
        ```

    References:
        - Northcutt, Athalye, Mueller: Pervasive label errors in test sets (NeurIPS 2021).
        - Zhang et al.: Understanding deep learning requires rethinking generalization (ICLR 2017).
    """

    rule_id = "noisy-labels"
    code = "TS307"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses", "labels")
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.WRONG_LABELS,)
    suspects = (Suspect(Cause.WRONG_LABELS, "training loss {training:.3g}, validation loss {evaluated:.3g}"),)
    shows_its_cause = True
    what_to_do = (
        "Print some rows of the training set with their labels, as they reach the model.",
        "Look at rows that the trained model is sure about, and that are labelled otherwise.",
    )

    share: float = parameter(0.7, "share of the training loss, below which a validation loss is far lower", minimum=0)
    level: float = parameter(0.5, "training loss over that of guessing, above which it counts", minimum=0)
    dropout: float = parameter(
        0.3, "share of dropped values that explains a higher training loss", minimum=0, maximum=1
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per validation loss that is far below the training's."""
        if has_several_aims(window):
            return []
        trained = training_losses(window)
        evaluated = window.columns("losses", "mean", mode="EVAL")
        pairs = [(column, training_of(column, trained)) for column in evaluated]
        found = [self._judge(window, column, training) for column, training in pairs if training is not None]
        return [finding for finding in found if finding is not None]

    def lacks(self, window: Window) -> str:
        """Name the missing input: evaluations with a loss."""
        names = window.tensors("losses")
        has_some = any(window.statistic(name, "mean", mode="EVAL") for name in names)
        return "" if has_some else f"{NEWEST + 1} evaluations with a loss"

    def _judge(self, window: Window, evaluated: Column, trained: Column) -> Finding | None:
        seen = by_evaluation(evaluated, trained, window.rests(trained.worker))
        if seen is None or len(seen.means) <= NEWEST or not (window.is_last or len(seen.means) >= MANY_EVALUATIONS):
            return None
        shares = shares_of(seen)
        largest = max(shares)
        if not largest < self.share or min(seen.means) < 0:
            return None
        facts = window.facts.loss(trained.tensor) if window.facts else None
        if facts is None or facts.is_weighted or max(DROPOUTS.of(facts), default=0.0) > self.dropout:
            return None
        guess = best_guess(window, trained.tensor, worker=trained.worker)
        if guess is None or not guess.is_of_classes or not self.level < seen.training[-1] / guess.loss < 1:
            return None
        return finding_of(
            window,
            evaluated,
            "validation loss over training loss",
            largest,
            below=self.share,
            since=int(seen.steps[-NEWEST - 1]),
            series=tuple([(int(s), float(v)) for s, v in zip(seen.steps[-20:], seen.means[-20:], strict=True)]),
            statistics={
                "training": float(seen.training[-1]),
                "evaluated": float(seen.means[-1]),
                "guessing": guess.loss,
            },
            place=facts.line,
        )


def shares_of(seen: Evaluations) -> list[float]:
    """Return the loss of each of the newest evaluations over that of the training after it."""
    before, after = seen.means[-NEWEST - 1 : -1], seen.training[-NEWEST:]
    return [float(mean / loss) if loss > 0 else float("inf") for mean, loss in zip(before, after, strict=True)]
