"""misplaced-targets: shares of turned targets over several looks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trackside.contracts.run.recorded_names import TURNED_TARGETS
from trackside.rules.data.misplaced_targets import MisplacedTargets
from trackside.testing.rule_case import RuleCase, assert_case


def case(name: str, shares: Sequence[float], *, fires: bool = False) -> RuleCase:
    recorded = {TURNED_TARGETS: {"mean": {5 * number: value for number, value in enumerate(shares)}}}
    return RuleCase(name, recorded=recorded, fires=(TURNED_TARGETS,) if fires else ())


CASES = [
    case("half of them", [0.4, 0.5, 0.6, 0.5, 0.4], fires=True),
    case("whole batches now and then", [0.9, 0.0, 0.0, 0.8, 0.0, 0.0, 0.9], fires=True),
    case("all", [1.0, 1.0, 1.0, 1.0], fires=True),
    case("in place", [0.0, 0.0, 0.0, 0.0, 0.0]),
    case("by chance", [0.1, 0.0, 0.3, 0.1, 0.0, 0.2, 0.1]),
    case("too few looks", [0.5, 0.5, 0.5]),
    RuleCase("no dense target", recorded={"Loss_output_0": {"mean": {0: 1.0}}}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    assert_case(MisplacedTargets(), case)


def test_what_it_lacks() -> None:
    lacking = [case.name for case in CASES if MisplacedTargets().lacks(case.window)]
    assert lacking == ["too few looks", "no dense target"]
