"""unsuitable-objective: gradients and second derivatives of an objective of one's own do not fit together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import (
    GRADIENTS_AGAINST_PREDICTIONS,
    SECOND_DERIVATIVES_OVER_SLOPE,
    SECOND_DERIVATIVES_POSITIVE,
)
from trackside.contracts.verdict import Finding, Severity
from trackside.evidence.suspects import Suspect
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import NEARLY_ALL, SEVERAL
from trackside.trial.window import Column, Window

AGAINST, POSITIVE, TOO_LARGE, TOO_SMALL = (
    "share of the gradients that fall as their prediction rises",
    "share of the second derivatives above zero",
    "second derivatives over the slope of the gradient",
    "slope of the gradient over the second derivatives",
)


@dataclass(frozen=True)
class UnsuitableObjective(Rule):
    """Gradients and second derivatives of an objective of one's own do not fit together.

    Why it matters:
        XGBoost and LightGBM take both from a function of the script, and check neither. With the sign the wrong way
        round, each round makes the model worse; with second derivatives a thousand times too large it hardly moves, and
        with some too small it jumps. Nothing raises an error.

    How it decides:
        The hook looks at what the function returns for some rows in the first six rounds; it calls nothing itself.
        Between two rounds predictions change, and gradients with them. Where the loss is least at the answer, a
        gradient rises with its prediction, by about the second derivative times the change.

        1. Sign: in two rounds nearly all gradients fall as their predictions rise, while the predictions move away from
           the labels. A loss that flattens far from the answer has such gradients too, and moves toward the labels.
        2. No curve: fewer than a tenth of the second derivatives are above zero.
        3. Scale, a warning only: in two rounds the median of the second derivatives over the slopes is above `times`,
           or below one over it. Second derivatives that are 1 for all rows stand for none, and are left alone.

        Rows whose gradient stays as it is (absolute errors, quantiles) are left out.

    Example:
        ```python
        from trackside.rules.models.unsuitable_objective import in_several

        assert in_several([0.2, 0.95, 0.97], above=0.9)
        assert not in_several([0.95], above=0.9)
        ```

    References:
        - XGBoost documentation: Custom Objective and Evaluation Metric.
        - Chen, Guestrin: XGBoost (KDD 2016): gradients and second derivatives of the loss.
    """

    rule_id = "unsuitable-objective"
    code = "TS309"
    only_of = ("xgboost", "lightgbm")
    watches = ("losses",)
    needs = ()
    paced = True
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.LOSS_SIGN, Cause.WRONG_LOSS)
    suspects = (
        Suspect(Cause.LOSS_SIGN, "gradients fall as predictions rise, which move away from the labels", (AGAINST,)),
        Suspect(Cause.WRONG_LOSS, "{comparison}", (POSITIVE, TOO_LARGE, TOO_SMALL)),
    )
    shows_its_cause = True
    what_to_do = (
        "Return the gradient of the loss to be made small, by the prediction: for a squared error, it less the label.",
        "Compare both with differences of the loss on a few rows: (loss(p + h) - loss(p - h)) / 2h.",
    )

    times: float = parameter(
        100.0, "most times that second derivatives may be larger or smaller than the slope of the gradient", minimum=1
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker and measure."""
        for column in window.statistic(GRADIENTS_AGAINST_PREDICTIONS, "mean", mode=None):
            if in_several(column.values, above=NEARLY_ALL):
                yield self._finding(window, column, AGAINST, float(column.values.max()), above=NEARLY_ALL)
        for column in window.statistic(SECOND_DERIVATIVES_POSITIVE, "mean", mode=None):
            if in_several(1 - column.values, above=NEARLY_ALL):
                yield self._finding(window, column, POSITIVE, float(column.values.min()), below=1 - NEARLY_ALL)
        for column in window.statistic(SECOND_DERIVATIVES_OVER_SLOPE, "mean", mode=None):
            yield from self._of_scale(window, column)

    def lacks(self, window: Window) -> str:
        """Name the missing input: an objective of the script."""
        return "" if window.statistic(SECOND_DERIVATIVES_POSITIVE, "mean", mode=None) else "an objective of the script"

    def _of_scale(self, window: Window, column: Column) -> Iterator[Finding]:
        values = column.values[column.values > 0]
        for measure, ratios in ((TOO_LARGE, values), (TOO_SMALL, 1 / values)):
            if in_several(ratios, above=self.times):
                size = float(sorted(ratios)[-SEVERAL])
                yield self._finding(window, column, measure, size, above=self.times, grade=Severity.WARNING)

    def _finding(
        self,
        window: Window,
        column: Column,
        measure: str,
        observed: float,
        *,
        above: float | None = None,
        below: float = 0.0,
        grade: Severity = Severity.CRITICAL,
    ) -> Finding:
        since = int(column.steps[0])
        return finding_of(
            window,
            "objective",
            measure,
            observed,
            above=above,
            below=below,
            since=since,
            worker=column.worker,
            grade=grade,
        )


def in_several(values: Iterable[float], *, above: float) -> bool:
    """Return True if two values are above a limit.

    Args:
        values: Of the rounds that were looked at.
        above: The limit.
    """
    return sum(value > above for value in values) >= SEVERAL
