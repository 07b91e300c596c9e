"""unsplit-trees: no tree of a boosted model splits, so that it gives every row the same answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import LEAST_WEIGHT_OF_SPLIT, UNSPLIT_TREES
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Window

UNSPLIT, NEEDED = (
    "share of the trees without a split",
    "what the two sides of a split need, over what all rows have",
)


@dataclass(frozen=True)
class UnsplitTrees(Rule):
    """No tree of a boosted model splits: it gives every row the same answer.

    Why it matters:
        A least weight or number of rows in a leaf that the data cannot give, or a gain that no split reaches, leaves
        trees of a single leaf. The library trains on without an error, and the model ignores its inputs.

    How it decides:
        The hook looks at the trees of the first three rounds.

        1. It fires where none of the first `rounds` has a split.
        2. XGBoost's `min_child_weight` is compared with the sum of second derivatives of all rows, LightGBM's
           `min_data_in_leaf` with the number of rows: two sides need twice as much. Where all rows have less, this is
           named as the cause. Else it may be `gamma` (`min_gain_to_split`), second derivatives of an objective of one's
           own, or inputs or labels that are all alike.

        Trees that stop to split later are as regularisation wants it, and silent.

    Example:
        ```python
        from trackside.rules.models.unsplit_trees import are_all_unsplit

        assert are_all_unsplit([1.0, 1.0, 1.0], rounds=3)
        assert not are_all_unsplit([0.0, 1.0, 1.0], rounds=3)
        assert not are_all_unsplit([1.0], rounds=3)  # too early to tell
        ```

    References:
        - XGBoost documentation: Parameters for Tree Booster.
        - LightGBM documentation: Learning Control Parameters.
    """

    rule_id = "unsplit-trees"
    code = "TS308"
    only_of = ("xgboost", "lightgbm")
    watches = ("losses",)
    needs = ()
    paced = True
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.SPLITS_FORBIDDEN,)
    suspects = (Suspect(Cause.SPLITS_FORBIDDEN, "two sides need {observed:.3g} times what all rows have", (NEEDED,)),)
    what_to_do = (
        "Lower min_child_weight and gamma (LightGBM: min_data_in_leaf and min_gain_to_split) until trees split.",
        "See whether inputs and labels differ between rows, and print the second derivatives of an own objective.",
    )

    rounds: int = parameter(3, "number of first rounds whose trees must all be without a split", minimum=1, maximum=3)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker."""
        for column in window.statistic(UNSPLIT_TREES, "mean", mode=None):
            if are_all_unsplit(column.values, rounds=self.rounds):
                since, needed = int(column.steps[0]), _needed(window, column.worker)
                measure, observed, limit = (NEEDED, needed, 1.0) if needed > 1 else (UNSPLIT, 1.0, 0.0)
                yield finding_of(window, "trees", measure, observed, above=limit, since=since, worker=column.worker)

    def observes(self, findings: Sequence[Finding]) -> bool:
        """Return True where the settings were measured to forbid every split."""
        return findings[0].measure == NEEDED

    def lacks(self, window: Window) -> str:
        """Name the missing input: trees."""
        return "" if window.statistic(UNSPLIT_TREES, "mean", mode=None) else "trees of the first rounds"


def _needed(window: Window, worker: str) -> float:
    columns = window.statistic(LEAST_WEIGHT_OF_SPLIT, "mean", mode=None)
    return min((float(column.values[-1]) for column in columns if column.worker == worker), default=0.0)


def are_all_unsplit(shares: Iterable[float], *, rounds: int) -> bool:
    """Return True if no tree of the first rounds has a split.

    Args:
        shares: The share of trees without a split, by round, the first ones.
        rounds: The number of rounds that must be known.
    """
    first = list(shares)[:rounds]
    return len(first) == rounds and all(share == 1 for share in first)
