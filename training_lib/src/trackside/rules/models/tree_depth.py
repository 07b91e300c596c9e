"""tree-depth: the trees of a boosted model are deep."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, CALIBRATED
from trackside.contracts.verdict import Finding
from trackside.rules.findings import finding_of
from trackside.rules.rule import Rule, parameter
from trackside.rules.selection import at_step
from trackside.trial.window import Window

_NODES = "trees/Node"


@dataclass(frozen=True)
class TreeDepth(Rule):
    """A tree of a boosted model is deeper than it should be.

    Why it matters:
        Each level doubles the leaves. Deep trees learn single samples by heart, take memory and time, and are slow to
        evaluate.

    How it decides:
        On the nodes of the trees that smdebug's hook saved of an XGBoost training (`trees/Node` of the collection
        `trees`), at each such step:

        1. n is the largest number of a node. The children of node k have the numbers 2k + 1 and 2k + 2, so that the
           depth is d = floor(log2(n + 1)); a tree that is its root alone has the depth 0.
        2. It fires where d > `depth`.

        It judges only where it was chosen. Amazon's TreeDepth compares log2 of the largest number; how that is rounded
        is not documented, and without rounding a full tree of depth 4 (nodes 0 to 30, log2 = 4.9) would be deeper than
        4. XGBoost's newer methods number nodes in the order they are made: there d is what the number of nodes requires
        for at least, and an uneven tree is deeper. Amazon's sample collects `tree`; the hook's collection is `trees`.

    Example:
        ```python
        from trackside.rules.models.tree_depth import depth_of

        assert [depth_of(n) for n in (0, 2, 14, 30, 31)] == [0, 1, 3, 4, 5]
        ```

    References:
        - XGBoost documentation: Notes on parameter tuning, control overfitting.
        - Amazon SageMaker Debugger, built-in rule TreeDepth.
    """

    rule_id = "tree-depth"
    code = "TS306"
    presets = (CALIBRATED, AWS_DOCS, AWS_SDK)
    is_asked_for = True
    judges_until_found = True
    watches = ("trees", "all")
    needs = (CollectionRequest("trees", Schedule(10)),)
    since = "0.1"
    likely_causes = (Cause.OVERFITTING,)
    what_to_do = ("Set max_depth lower, or gamma and min_child_weight higher.",)

    depth: int = parameter(4, "depth of a tree above which it fires", minimum=1)

    def check(self, window: Window) -> Iterable[Finding]:
        """Return one finding for the newest tree, if it is too deep."""
        return [
            finding_of(
                window,
                column,
                "depth of the tree",
                float(depth_of(column.values[-1])),
                above=float(self.depth),
                series=tuple([(step, float(depth_of(largest))) for step, largest in column.series]),
            )
            for column in at_step(window, (_NODES,), "max")
            if depth_of(column.values[-1]) > self.depth
        ]

    def lacks(self, window: Window) -> str:
        """Name the missing input: trees."""
        return "" if any(at_step(window, (_NODES,), "max")) else f"trees of XGBoost ({_NODES})"


def depth_of(largest_node: float) -> int:
    """Return the depth of a tree with nodes numbered level by level, from 0."""
    return math.floor(math.log2(largest_node + 1)) if largest_node >= 0 and math.isfinite(largest_node) else 0
