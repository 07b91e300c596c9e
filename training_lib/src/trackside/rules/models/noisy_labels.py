"""noisy-labels: the training loss stays far above that of the evaluations, as with labels that are partly wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.diagnosis import has_several_aims, training_losses
from trackside.rules.evaluations import MANY, Evaluations, by_evaluation, training_of
from trackside.rules.guessing import best_guess
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Column, Window

_COMPARED = 3  # newest evaluations, each with the training after it


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

        Training data that are augmented or mixed beyond recognition look the same; leave the rule out there. Amazon's
        Debugger has no such rule.

    What to do:
        Print some rows of the training set with their labels, as they reach the model, and some that the trained model
        is sure about and that are labelled otherwise.

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
    save_interval = 500
    needs = ()
    paced = True
    severity = Severity.WARNING
    since = "0.1"
    likely_causes = (Cause.WRONG_LABELS,)
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
        evaluated = [c for name in window.tensors("losses") for c in window.statistic(name, "mean", mode="EVAL")]
        pairs = [(column, training_of(column, trained)) for column in evaluated]
        found = [self._judge(window, column, training) for column, training in pairs if training is not None]
        return [finding for finding in found if finding is not None]

    def lacks(self, window: Window) -> str:
        """Name the missing input: evaluations with a loss."""
        names = window.tensors("losses")
        has_some = any(window.statistic(name, "mean", mode="EVAL") for name in names)
        return "" if has_some else f"{_COMPARED + 1} evaluations with a loss"

    def suspicions(self, findings: Sequence[Finding], window: Window) -> Sequence[Suspicion]:
        """Return wrong labels, with both losses."""
        numbers = findings[0].statistics
        because = f"training loss {numbers['training']:.3g}, validation loss {numbers['evaluated']:.3g}"
        return (Suspicion(Cause.WRONG_LABELS, because),)

    def _judge(self, window: Window, evaluated: Column, trained: Column) -> Finding | None:
        seen = by_evaluation(evaluated, trained)
        if seen is None or len(seen.means) <= _COMPARED or not (window.is_last or len(seen.means) >= MANY):
            return None
        shares = shares_of(seen)
        largest = max(shares)
        if not largest < self.share or min(seen.means) < 0:
            return None
        facts = window.facts.loss(trained.tensor) if window.facts else None
        if facts is None or facts.is_weighted or max(facts.dropouts, default=0.0) > self.dropout:
            return None
        guess = best_guess(window, trained.tensor, worker=trained.worker)
        if guess is None or not guess.is_of_classes or not self.level < seen.training[-1] / guess.loss < 1:
            return None
        return Finding(
            subject=evaluated.tensor,
            worker=evaluated.worker,
            step=window.step,
            since_step=int(seen.steps[-_COMPARED - 1]),
            measure="validation loss over training loss",
            observed=largest,
            relation="<",
            threshold=self.share,
            statistics={
                "training": float(seen.training[-1]),
                "evaluated": float(seen.means[-1]),
                "guessing": guess.loss,
            },
            series=tuple([(int(s), float(v)) for s, v in zip(seen.steps[-20:], seen.means[-20:], strict=True)]),
            place=facts.line,
        )


def shares_of(seen: Evaluations) -> list[float]:
    """Return the loss of each of the newest evaluations over that of the training after it.

    Args:
        seen: The evaluations, four at least.
    """
    before, after = seen.means[-_COMPARED - 1 : -1], seen.training[-_COMPARED:]
    return [float(mean / loss) if loss > 0 else float("inf") for mean, loss in zip(before, after, strict=True)]
