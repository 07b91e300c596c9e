"""collapsed-views: two views of a sample are alike because the outputs for all samples are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import VIEW_SPREAD
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.situation.constants import FIRST, NEWEST
from trackside.situation.medians import median
from trackside.trial.window import Window

MEASURE = "spread of the outputs for a batch of views"


@dataclass(frozen=True)
class CollapsedViews(Rule):
    """Two views of a sample are alike because the outputs for all samples are.

    Why it matters:
        A loss that only asks that two views of a sample get one output is least where all samples do. It falls to its
        optimum in a few hundred steps, and the representation carries nothing. Contrast with other samples, a view
        without gradients beside a predictor, or terms of variance keep samples apart.

    How it decides:
        Where a loss compares two passes of one model, the hook takes the outputs of the last linear layer that both
        share, at looks into the graph, each divided by its length: s = 1 - |mean|^2, of at most 64 samples.

        1. It fires where the median of the newest three s is below `least`,
        2. and below `share` of the median of the first three.

        Narrow cones of a fresh network have a small s too, and widen as it learns.

    Example:
        ```python
        from trackside.rules.data.collapsed_views import CollapsedViews

        assert CollapsedViews().least == 0.1
        ```

    References:
        - Chen, He: Exploring simple Siamese representation learning (CVPR 2021): collapse without a stopped gradient.
        - Bardes, Ponce, LeCun: VICReg (ICLR 2022): variance between the samples of a batch.
    """

    rule_id = "collapsed-views"
    code = "TS233"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    numbers = (VIEW_SPREAD,)
    paced = True
    since = "0.1"
    likely_causes = (Cause.COLLAPSED_VIEWS,)
    shows_its_cause = True
    what_to_do = (
        "Detach the target of each view: -cosine_similarity(predictor(a), b.detach()), and update it slowly.",
        "Watch the deviation of the outputs between the samples of a batch beside the loss.",
    )

    least: float = parameter(
        0.1, "share of the largest spread of directions, below which outputs are alike", minimum=0, maximum=1
    )
    share: float = parameter(1 / 3, "share of the first spread, below which it has fallen", minimum=0, maximum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with outputs that have collapsed."""
        for column in window.statistic(VIEW_SPREAD, "mean", mode=None):
            if len(column.values) < FIRST + NEWEST:
                continue
            first, now = median(column.values[:FIRST]), median(column.values[-NEWEST:])
            if now < min(self.least, self.share * first):
                since = int(column.steps[-NEWEST])
                yield finding_of(window, column, MEASURE, now, below=min(self.least, self.share * first), since=since)

    def lacks(self, window: Window) -> str:
        """Return a clause without enough looks at two views."""
        columns = window.statistic(VIEW_SPREAD, "mean", mode=None)
        enough = any(len(column.values) >= FIRST + NEWEST for column in columns)
        return "" if enough else "a loss that compares two passes of one model, at a few looks into its graph"
