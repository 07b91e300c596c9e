"""misplaced-targets: dense targets that lie otherwise than their inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import TURNED_TARGETS
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.trial.window import Window

MEASURE = "share of targets that fit their inputs once they are flipped or rotated"


@dataclass(frozen=True)
class MisplacedTargets(Rule):
    """Dense targets lie otherwise than their inputs: flipped, rotated or transposed.

    Why it matters:
        A mask or a map belongs to its picture place by place. Where an augmentation flips the picture and not the
        target, or draws anew for each, a share of the targets is of other places. The loss stalls at a higher value,
        outlines blur, and nothing is raised.

    How it decides:
        At up to 12 looks into the graph of a loss with a target for each place of the input of the first convolution:

        1. Of each sample, the hook takes the share of a channel's variance that the target explains, as it is and
           flipped, rotated by quarter turns or transposed.
        2. A sample counts if a turned target explains at least 0.1 more, and twice as much, as the target as it is. The
           share of samples that count with the target of another sample is taken off: what chance does.
        3. It fires where the mean of at least `looks` such numbers is above `share`.

        Objects that look the same on both sides count neither way. Of losses whose graph keeps the target: cross
        entropy, binary cross entropy, squared and Huber errors. A shift or a crop of one of the two is not seen.

    Example:
        ```python
        from trackside.rules.data.misplaced_targets import MisplacedTargets

        assert MisplacedTargets().share == 0.15
        ```

    References:
        - Buslaev et al.: Albumentations (Information 2020): one draw for an image and its mask.
        - Humbatova et al., Taxonomy of real faults in deep learning systems (ICSE 2020): data augmentation.
    """

    rule_id = "misplaced-targets"
    code = "TS234"
    only_of = ("pytorch",)
    is_of_networks = True
    watches = ("losses",)
    needs = ()
    numbers = (TURNED_TARGETS,)
    paced = True
    since = "0.1"
    likely_causes = (Cause.MISPLACED_TARGETS,)
    shows_its_cause = True
    what_to_do = (
        "Give one call both: transform(image=image, mask=mask), or flip both under one random number.",
        "Draw a few inputs of the DataLoader with their targets on top.",
    )

    looks: int = parameter(4, "looks at batches before it decides", minimum=1)
    share: float = parameter(
        0.15, "share of targets that fit once they are turned, above which they lie otherwise", minimum=0, maximum=1
    )

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding per worker with targets that lie otherwise."""
        for column in window.statistic(TURNED_TARGETS, "mean", mode=None):
            share = float(column.values.mean()) if len(column.values) >= self.looks else 0.0
            if share > self.share:
                since = int(column.steps[0])
                yield finding_of(window, column, MEASURE, share, above=self.share, since=since)

    def lacks(self, window: Window) -> str:
        """Return a clause without enough looks at dense targets."""
        columns = window.statistic(TURNED_TARGETS, "mean", mode=None)
        enough = any(len(column.values) >= self.looks for column in columns)
        return "" if enough else "a loss with a target for each place of a picture, at a few looks into its graph"
