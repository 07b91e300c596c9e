"""dataloader: a DataLoader has too few or too many workers for the machine."""

from __future__ import annotations

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import loader, steps
from trackside.speed.rules.dataloader import Dataloader
from trackside.testing.rule_case import RuleCase, assert_case

RULE = Dataloader()
WAITS = steps([0.02] * 80, data=[0.015] * 80)
KEEPS_UP = steps([0.02] * 80, data=[0.0001] * 80)
ONE = ("DataLoader of Images",)
CASES = [
    RuleCase("none, and the training waits", recorded=WAITS, speed=loader(0), fires=ONE),
    RuleCase("few, and the training waits", recorded=WAITS, speed=loader(2), fires=ONE),
    RuleCase("many", recorded=KEEPS_UP, speed=loader(17), fires=ONE),
    RuleCase("enough", recorded=WAITS, speed=loader(8)),
    RuleCase("none, and the training does not wait", recorded=KEEPS_UP, speed=loader(0)),
    RuleCase("none, and short waits", recorded=steps([0.001] * 80, data=[0.0009] * 80), speed=loader(0)),
    RuleCase("twice as many as processors", recorded=WAITS, speed=loader(16)),
    RuleCase(
        "none, and other work has the processor",
        recorded=steps([0.2] * 80, data=[0.18] * 80, waits=[0.1795] * 80, waits_in_data=[0.1795] * 80),
        speed=loader(0),
    ),
    RuleCase("few, without a processor", recorded=WAITS, speed=loader(2, waited_share=0.99)),
    RuleCase(
        "a long wait among few steps", recorded=steps([0.02] * 9 + [0.6], data=[0.0] * 9 + [0.6]), speed=loader(0)
    ),
    RuleCase("no DataLoader", recorded=WAITS),
    RuleCase("processors unknown", recorded=WAITS, speed=loader(0, processors=0)),
]


def test_in_amazons_sense_few_are_too_few() -> None:
    rule = Dataloader.from_parameters({}, preset="aws-sdk")
    assert_case(rule, RuleCase("few", recorded=KEEPS_UP, speed=loader(0), fires=ONE))


test_cases = every_case(RULE, CASES)
