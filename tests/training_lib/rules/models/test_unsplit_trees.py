"""unsplit-trees: the first rounds without a split."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import along, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import LEAST_WEIGHT_OF_SPLIT, UNSPLIT_TREES
from trackside.rules.models.unsplit_trees import UnsplitTrees
from trackside.testing.rule_case import RuleCase, Statistics, assert_case


def rounds(*shares: float, needed: float | None = None) -> Statistics:
    found: Statistics = {UNSPLIT_TREES: {"mean": along(list(shares))}}
    return found if needed is None else {**found, LEAST_WEIGHT_OF_SPLIT: {"mean": along([needed] * len(shares))}}


CASES = [
    RuleCase("no split", recorded=rounds(1, 1, 1), fires=("trees",)),
    RuleCase("more is needed than there is", recorded=rounds(1, 1, 1, needed=40.0), fires=("trees",)),
    RuleCase("less is needed than there is", recorded=rounds(1, 1, 1, needed=0.2), fires=("trees",)),
    RuleCase("splits", recorded=rounds(0, 0, 0)),
    RuleCase("a split in the first round", recorded=rounds(0, 1, 1)),
    RuleCase("a split in the last", recorded=rounds(1, 1, 0)),
    RuleCase("one class of three splits", recorded=rounds(2 / 3, 2 / 3, 2 / 3)),
    RuleCase("two rounds so far", recorded=rounds(1, 1)),
    RuleCase("nothing recorded of it", recorded={"logloss_output_0": {"mean": steady(1)}}),
]

test_cases = every_case(UnsplitTrees(), CASES)


@pytest.mark.parametrize(("place", "causes"), [(0, []), (1, [Cause.SPLITS_FORBIDDEN]), (2, [])])
def test_a_cause_is_named_where_it_was_measured(place: int, causes: list[Cause]) -> None:
    case = CASES[place]
    findings = list(assert_case(UnsplitTrees(), case))
    assert [one.cause for one in UnsplitTrees().suspicions(findings, case.window)] == causes


def test_what_it_lacks() -> None:
    assert [bool(UnsplitTrees().lacks(CASES[place].window)) for place in (0, -1)] == [False, True]
