"""strong-dropout: dropouts that drop nearly all of what they are given."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.model_facts import LossFacts, ModelFacts
from trackside.contracts.observations import DROPOUTS
from trackside.rules.program.strong_dropout import StrongDropout
from trackside.testing.rule_case import RuleCase, assert_case

CE = "CrossEntropyLoss_output_0"


def case(name: str, *shares: float, fires: bool = False) -> RuleCase:
    """A run with dropouts of these shares before its loss."""
    facts = (ModelFacts(0, losses=(LossFacts(CE, "CrossEntropyLoss", observed={DROPOUTS: shares}),)),)
    return RuleCase(name, recorded={CE: {"mean": steady(1.0, 60)}}, fires=(CE,) if fires else (), facts=facts)


CASES = [
    case("19 of 20", 0.95, fires=True),
    case("all but one of 100, others as usual", 0.99, 0.1, 0.1, fires=True),
    case("the share to keep in place of the share to drop", 0.9, 0.9, fires=True),
    case("two of 80 %, with a small one", 0.8, 0.8, 0.2, fires=True),
    case("one before the last layer, as for video", 0.9),
    case("one large and one usual", 0.8, 0.5),
    case("halves", 0.5, 0.5, 0.5, 0.5),
    case("two large ones, but usual", 0.7, 0.7),
    case("small", 0.1),
    case("none"),
]

test_cases = every_case(StrongDropout(), CASES)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        pytest.param(CASES[0], f"A dropout before {CE} drops 95 % of the values.", id="one"),
        pytest.param(
            CASES[2], f"A dropout before {CE} drops 90 % of the values and 1 more dropout nearly as much.", id="two"
        ),
    ],
)
def test_messages(case: RuleCase, message: str) -> None:
    assert StrongDropout().sentence(assert_case(StrongDropout(), case)) == message
