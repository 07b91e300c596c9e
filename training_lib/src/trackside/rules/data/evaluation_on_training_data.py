"""evaluation-on-training-data: each evaluation sees rows that were trained on, or that overlap with such."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import EVALUATED_ROWS_OVERLAP, EVALUATED_ROWS_TRAINED_ON
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Window

MEASURE = "share of the evaluated rows that were trained on"
OVERLAP = "share of the held-out rows that begin and end within rows that were trained on"


@dataclass(frozen=True)
class EvaluationOnTrainingData(Rule):
    """Each evaluation sees rows that were trained on and no others, or rows that overlap with such.

    Why it matters:
        A loop that is given the training loader twice, or a split that was drawn before the data were copied, measures
        how much is known by heart. The figures look better than they are, overfitting is not seen, and the checkpoint
        with the best evaluation is the one that learned most by heart.

    How it decides:
        The hook makes a digest of each row that DataLoaders return in the first pass over the training data (of the
        first 256 batches and 64 of every thousand after them, at most 65,536 rows), from inputs and labels together. Of
        each pass of an evaluation in eval mode it looks up 32 rows of the first 8 batches.

        1. s is the share of these rows that were trained on, of the pass with the least share in that evaluation: a
           program that evaluates its training data and other data is silent.
        2. It fires where s is at least `share` in each of the newest `evaluations` evaluations, or when the run has
           ended in each that there was.
        3. Of an estimator of scikit-learn, all rows that `score` and `predict` were given after the training make one
           evaluation, of 256 rows of each call. Without a call of `score` there is none.
        4. Of XGBoost and LightGBM only a boosting with early stopping is judged: it fires where each set that may end
           it is the training set, or has its rows in their order.
        5. Windows of one series that are split at random share most of their steps. Of rows that are held out it looks
           up the first and the last five steps, along each axis of rows of up to two, among those of the training, but
           for their own ends. It fires where more than `overlap` of both are found. Where later steps are held out, no
           row ends in what was trained on. Data of up to 65,536 rows and 256 batches; no tokens, no few-valued rows.

        Passes with fewer than 32 different rows are silent, and rows of fewer than 8 numbers, data of which a tenth and
        more is equal, rows that augmentation changes or that are padded to another length, and data of PyTorch that
        are not read by a DataLoader.

    Example:
        ```python
        import numpy as np
        from trackside.rules.data.evaluation_on_training_data import least_of_newest

        assert least_of_newest(np.array([0.0, 1.0, 1.0]), evaluations=2) == 1.0
        assert least_of_newest(np.array([1.0]), evaluations=2) is None  # too early to tell
        ```

    References:
        - Humbatova et al.: Taxonomy of real faults in deep learning systems (ICSE 2020), incorrect train/test split.
        - Kapoor, Narayanan: Leakage and the reproducibility crisis in machine-learning-based science (2023).
    """

    rule_id = "evaluation-on-training-data"
    code = "TS219"
    only_of = ("pytorch", "scikit-learn", "xgboost", "lightgbm")
    judges_the_end = True
    watches = ("losses",)
    needs = ()
    paced = True
    since = "0.1"
    likely_causes = (Cause.DATA_LEAKAGE,)
    suspects = (
        Suspect(Cause.DATA_LEAKAGE, "{observed:.0%} of the rows of each evaluation had been trained on", (MEASURE,)),
        Suspect(
            Cause.DATA_LEAKAGE, "windows of one series are on both sides: {observed:.0%} lie in others", (OVERLAP,)
        ),
    )
    shows_its_cause = True
    what_to_do = (
        "Give the evaluation the loader of the data that are held back, not that of the training.",
        "Split first, then copy, window or augment: rows of one origin belong to one side, of a series the later ones.",
        "If training rows are evaluated on purpose, evaluate held-back rows too, or skip this rule.",
    )

    share: float = parameter(0.9, "share of the evaluated rows that were trained on", minimum=0, maximum=1)
    overlap: float = parameter(0.6, "share of held-out rows that overlap with the training's", minimum=0, maximum=1)
    evaluations: int = parameter(2, "newest evaluations that are looked at", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker."""
        for name, measure, limit in (
            (EVALUATED_ROWS_TRAINED_ON, MEASURE, self.share),
            (EVALUATED_ROWS_OVERLAP, OVERLAP, self.overlap),
        ):
            for column in window.statistic(name, "mean", mode=None):
                count = min(self.evaluations, len(column.values)) if window.is_last else self.evaluations
                least = least_of_newest(column.values, evaluations=count)
                if least is None or least < limit:
                    continue
                known = np.flatnonzero(column.values < limit)
                since = int(column.steps[int(known[-1]) + 1 if known.size else 0])
                above = min(limit, float(np.nextafter(least, -1)))
                yield finding_of(window, column, measure, least, above=above, since=since)

    def lacks(self, window: Window) -> str:
        """Name the missing input: rows of enough evaluations."""
        columns = window.statistic(EVALUATED_ROWS_TRAINED_ON, "mean", mode=None)
        if not columns or any(len(column.values) >= self.evaluations for column in columns):
            return ""
        return "" if window.is_last else f"{self.evaluations} evaluations with a DataLoader"


def least_of_newest(values: NDArray[np.float64], *, evaluations: int) -> float | None:
    """Return the least of the newest `evaluations` values; None with fewer values."""
    return float(values[-evaluations:].min()) if len(values) >= evaluations else None
