"""held-out-inputs: held-out inputs that are changed at random, or scaled by their own statistics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import HELD_OUT_INPUTS_CHANGED, HELD_OUT_INPUTS_OWN_STATISTICS
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import MOST
from trackside.trial.window import Window

CHANGED, OWN = (
    "evaluations in a row with other inputs for the same labels",
    "share of the columns with mean 0 and deviation 1 over the held-out rows",
)


@dataclass(frozen=True)
class HeldOutInputs(Rule):
    """Held-out inputs are not as they are in use: changed at random, or scaled by their own statistics.

    Why it matters:
        Augmentation that also works on held-out data makes each evaluation another one, and worse than the model. Held-
        out data that are scaled by their own mean and deviation are not where the same rows would be in use: a figure
        of them is of another preparation, and one row alone cannot be scaled so at all.

    How it decides:
        On batches that a DataLoader returns in eval mode, of evaluations that pass once over their data:

        1. Changed: in `evaluations` evaluations in a row the labels of the first batch, which are classes, are those of
           the evaluation before, and the inputs are not.
        2. Own statistics: over a whole evaluation more than half of the columns (channels of images) have mean 0 and
           deviation 1, to four digits, twice. Statistics of the training rows leave a sample of others further away.
           None of the rows is trained on, and a part of them is not scaled so.

        Several passes in one evaluation, two views of each row, targets in floating point (noise to be taken out),
        words, and data that are not read by a DataLoader are silent.

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
    likely_causes = (Cause.RANDOM_EVALUATION, Cause.OWN_STATISTICS)
    suspects = (
        Suspect(Cause.RANDOM_EVALUATION, "held-out inputs differ from one evaluation to the next", (CHANGED,)),
        Suspect(Cause.OWN_STATISTICS, "{observed:.0%} of their columns have mean 0 and deviation 1", (OWN,)),
    )
    shows_its_cause = True
    what_to_do = (
        "Give held-out data a transformation without random parts, and one scale with the training data.",
        "If they are to be random (augmentation at test time), pass over them several times and take the mean.",
    )

    evaluations: int = parameter(3, "evaluations in a row with changed inputs", minimum=2)

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

    def lacks(self, window: Window) -> str:
        """Name the missing input: inputs of evaluations."""
        names = (HELD_OUT_INPUTS_CHANGED, HELD_OUT_INPUTS_OWN_STATISTICS)
        known = any(window.statistic(name, "mean", mode=None) for name in names)
        return "" if known else "inputs of evaluations with a DataLoader"


def newest_in_a_row(changed: Iterable[float]) -> int:
    """Return the number of newest evaluations in a row with changed inputs.

    Args:
        changed: 1 or 0 of each evaluation, oldest first.
    """
    values = list(changed)
    return next((count for count, value in enumerate(reversed(values)) if value != 1), len(values))
