"""straggler-rank: one rank makes the others wait."""

from __future__ import annotations

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import ranks, steps
from trackside.speed.rules.straggler_rank import StragglerRank
from trackside.testing.rule_case import RuleCase

RULE = StragglerRank()
ONE = ("steps",)
CASES = [
    RuleCase("one of two", recorded=ranks({"worker_0": 0.01, "worker_1": 0.03}, step=0.04), fires=ONE),
    RuleCase(
        "one of three", recorded=ranks({"worker_0": 0.03, "worker_1": 0.01, "worker_2": 0.01}, step=0.04), fires=ONE
    ),
    RuleCase("all alike", recorded=ranks({"worker_0": 0.02, "worker_1": 0.02}, step=0.04)),
    RuleCase("a small difference", recorded=ranks({"worker_0": 0.02, "worker_1": 0.026}, step=0.04)),
    RuleCase("all slow", recorded=ranks({"worker_0": 0.03, "worker_1": 0.031, "worker_2": 0.03}, step=0.04)),
    RuleCase("too few steps", recorded=ranks({"worker_0": 0.01, "worker_1": 0.03}, step=0.04, count=40)),
    RuleCase("one rank", recorded=steps([0.04] * 80)),
]


def test_names_the_rank() -> None:
    window = RuleCase("", recorded=ranks({"worker_0": 0.01, "worker_1": 0.03}, step=0.04)).window
    (finding,) = RULE.check(window)
    assert finding.worker == "worker_1"


test_cases = every_case(RULE, CASES)
