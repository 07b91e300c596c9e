"""held-out-inputs: held-out data that are changed, scaled by themselves, or of classes that the training lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import (
    HELD_OUT_INPUTS_CHANGED,
    HELD_OUT_INPUTS_OWN_STATISTICS,
    HELD_OUT_LABELS_HIGHEST,
    HELD_OUT_LABELS_UNTRAINED,
)
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import MOST, SEVERAL
from trackside.trial.window import Window

CHANGED, OWN, UNTRAINED = (
    "evaluations in a row with other inputs for the same labels",
    "share of the columns with mean 0 and deviation 1 over the held-out rows",
    "share of the held-out labels of classes that the training hardly has",
)


@dataclass(frozen=True)
class HeldOutInputs(Rule):
    """Held-out data are not as the training's: changed at random, scaled by themselves, or of other classes.

    Why it matters:
        Augmentation that also works on held-out data makes each evaluation another one, and worse than the model. Held-
        out data that are scaled by their own mean and deviation are not where the same rows would be in use: a figure
        of them is of another preparation, and one row alone cannot be scaled so at all. Where data that lie class by
        class are cut without shuffling, the model is asked for classes that it has never seen.

    How it decides:
        On batches that a DataLoader returns in eval mode, of evaluations that pass once over their data:

        1. Changed: in `evaluations` evaluations in a row the labels of the first batch, which are classes, are those of
           the evaluation before, and the inputs are not.
        2. Own statistics: over a whole evaluation more than half of the columns (channels of images) have mean 0 and
           deviation 1, to four digits, twice. Statistics of the training rows leave a sample of others further away.
           None of the rows is trained on, and a part of them is not scaled so.
        3. Other classes: twice in a row more than `untrained` of the labels are of classes below 1 % of the labels of
           the first pass over the training data, and the scores of the loss have a place for them. Of several passes
           over held-out data in an evaluation (tasks, one after the other) the one with the least counts.

        Of 1 and 2 several passes in one evaluation, two views of each row, targets in floating point (noise to be taken
        out), words, and data that are not read by a DataLoader are silent.

    Example:
        ```python
        from trackside.rules.data.held_out_inputs import newest_in_a_row

        assert newest_in_a_row([0.0, 1.0, 1.0, 1.0]) == 3
        assert newest_in_a_row([1.0, 0.0]) == 0
        ```

    References:
        - scikit-learn, Common pitfalls and recommended practices: inconsistent preprocessing.
        - Kapoor, Narayanan: Leakage and the reproducibility crisis in machine-learning-based science (2023).
    """

    rule_id = "held-out-inputs"
    code = "TS229"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.RANDOM_EVALUATION, Cause.OWN_STATISTICS, Cause.SORTED_SPLIT)
    suspects = (
        Suspect(Cause.RANDOM_EVALUATION, "held-out inputs differ from one evaluation to the next", (CHANGED,)),
        Suspect(Cause.OWN_STATISTICS, "{observed:.0%} of their columns have mean 0 and deviation 1", (OWN,)),
        Suspect(Cause.SORTED_SPLIT, "{observed:.0%} of their labels are of classes that it hardly has", (UNTRAINED,)),
    )
    shows_its_cause = True
    what_to_do = (
        "Give held-out data a transformation without random parts, and one scale with the training data.",
        "Shuffle before the split, or split each class alike.",
        "If they are to be random (augmentation at test time), pass over them several times and take the mean.",
    )

    evaluations: int = parameter(3, "evaluations in a row with changed inputs", minimum=2)
    untrained: float = parameter(0.3, "share of labels of classes that the training hardly has", minimum=0, maximum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker and measure."""
        for column in window.statistic(HELD_OUT_INPUTS_CHANGED, "mean", mode=None):
            count = newest_in_a_row(column.values)
            if count >= self.evaluations:
                since, limit = int(column.steps[-count]), float(self.evaluations - 1)
                yield finding_of(
                    window, "inputs", CHANGED, float(count), above=limit, since=since, worker=column.worker
                )
        for column in window.statistic(HELD_OUT_INPUTS_OWN_STATISTICS, "mean", mode=None):
            newest = column.values[-2:]
            if len(newest) > 1 and newest.min() > MOST:
                share, since = float(newest.min()), int(column.steps[0])
                yield finding_of(window, "inputs", OWN, share, above=MOST, since=since, worker=column.worker)

        yield from self._of_other_classes(window)

    def _of_other_classes(self, window: Window) -> Iterator[Finding]:
        losses = window.facts.losses if window.facts is not None else ()
        places = max((loss.class_count or 0 for loss in losses), default=0)
        highest = {column.worker: column for column in window.statistic(HELD_OUT_LABELS_HIGHEST, "mean", mode=None)}
        for column in window.statistic(HELD_OUT_LABELS_UNTRAINED, "mean", mode=None):
            newest = column.values[-SEVERAL:]
            if len(newest) < SEVERAL or not newest.min() > self.untrained:
                continue
            if column.worker in highest and highest[column.worker].values[-1] < places:
                share, since = float(newest.min()), int(column.steps[-SEVERAL])
                yield finding_of(
                    window, "labels", UNTRAINED, share, above=self.untrained, since=since, worker=column.worker
                )

    def lacks(self, window: Window) -> str:
        """Name the missing input: inputs of evaluations."""
        names = (HELD_OUT_INPUTS_CHANGED, HELD_OUT_INPUTS_OWN_STATISTICS, HELD_OUT_LABELS_UNTRAINED)
        known = any(window.statistic(name, "mean", mode=None) for name in names)
        return "" if known else "inputs of evaluations with a DataLoader"


def newest_in_a_row(changed: Iterable[float]) -> int:
    """Return the number of newest evaluations in a row with changed inputs.

    Args:
        changed: 1 or 0 of each evaluation, oldest first.
    """
    values = list(changed)
    return next((count for count, value in enumerate(reversed(values)) if value != 1), len(values))
