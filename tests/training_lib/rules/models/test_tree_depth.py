"""tree-depth: on the trees that smdebug's hook saves of XGBoost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import Row, every_case
from trackside.rules.models.tree_depth import TreeDepth, depth_of
from trackside.testing.rule_case import RuleCase

NODES, IDS = "trees/Node", "trees/ID"
COLLECTIONS = {"trees": ("^trees/.*",)}
USUAL_RULE, TWO = TreeDepth(), TreeDepth(depth=2)


def full(depth: int) -> dict[str, dict[int, object]]:
    """The trees' columns of a round whose tree is full to that depth."""
    count = 2 ** (depth + 1) - 1
    return {NODES: {0: np.arange(count)}, IDS: {0: np.array([f"0-{node}" for node in range(count)])}}


FIRES = [
    Row("a depth of five", full(5), fires=(NODES,), collections=COLLECTIONS),
    Row("a single node on the fifth level", {NODES: {0: [0, 2, 6, 14, 30, 62]}}, fires=(NODES,)),
    Row("a depth of three, where two are allowed", full(3), fires=(NODES,), collections=COLLECTIONS, rule=TWO),
    Row("at a later round", {NODES: {0: [0], 10: np.arange(63)}}, fires=(NODES,)),
]
SILENT = [
    Row("a depth of four", full(4), collections=COLLECTIONS),
    Row("the root alone", full(0), collections=COLLECTIONS),
    Row("a depth of two, where two are allowed", full(2), collections=COLLECTIONS, rule=TWO),
    Row("deep before, flat now", {NODES: {0: np.arange(63), 10: [0, 1, 2]}}),
]

test_rows = every_case(USUAL_RULE, [*FIRES, *SILENT])


def test_without_trees_it_says_what_it_lacks() -> None:
    assert "trees" in USUAL_RULE.lacks(RuleCase("metrics", {"train-rmse": {0: 1.0}}).window)
    assert not USUAL_RULE.lacks(RuleCase("trees", full(2)).window)


@given(st.integers(0, 40))
def test_the_nodes_of_a_level_have_its_depth(depth: int) -> None:
    assert depth_of(2**depth - 1) == depth_of(2 ** (depth + 1) - 2) == depth
