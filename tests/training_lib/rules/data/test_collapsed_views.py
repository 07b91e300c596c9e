"""collapsed-views: outputs that have become alike; silent for those that widen, and narrow from the start."""

from __future__ import annotations

from collections.abc import Sequence

from tests.training_lib.rules.tables import every_case
from trackside.contracts.run.recorded_names import VIEW_SPREAD
from trackside.rules.data.collapsed_views import CollapsedViews
from trackside.testing.rule_case import RuleCase


def case(name: str, spreads: Sequence[float], *, fires: bool = False) -> RuleCase:
    recorded = {VIEW_SPREAD: {"mean": {5 * number: value for number, value in enumerate(spreads)}}}
    return RuleCase(name, recorded=recorded, fires=(VIEW_SPREAD,) if fires else ())


CASES = [
    case("collapsed", [0.7, 0.6, 0.6, 0.3, 0.1, 0.05, 0.04, 0.03], fires=True),
    case("at once", [0.7, 0.6, 0.5, 0.0, 0.0, 0.0], fires=True),
    case("one look that is wide again", [0.7, 0.6, 0.6, 0.05, 0.3, 0.04, 0.04], fires=True),
    case("spread evenly", [0.7, 0.8, 0.9, 0.95, 0.97, 0.99]),
    case("narrow at first, and wider", [0.12, 0.11, 0.1, 0.06, 0.06, 0.15, 0.2, 0.3]),
    case("a narrow cone that stays", [0.06, 0.06, 0.06, 0.06, 0.06, 0.06]),
    case("less than before, and wide", [0.9, 0.9, 0.9, 0.3, 0.25, 0.2, 0.2]),
    case("too few looks", [0.7, 0.6, 0.05, 0.04, 0.03]),
    RuleCase("no two views", recorded={"Loss_output_0": {"mean": {0: 1.0}}}),
]

test_cases = every_case(CollapsedViews(), CASES)
