"""throttled-gpu: a GPU lowers its clock against heat or a failing power supply."""

from __future__ import annotations

from dataclasses import replace

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import SECOND_STEP, metric
from trackside.speed.rules.throttled_gpu import ThrottledGpu
from trackside.testing.rule_case import RuleCase

RULE = ThrottledGpu(samples=100)


def reasons(*values: float) -> RuleCase:
    samples = metric("gpu", "gpu0", "GPUThrottleReasons", list(values) * (120 // len(values)))
    return RuleCase("", recorded=SECOND_STEP, machine=samples)


ONE = ("gpu0 of algo-1",)
CASES = [
    replace(reasons(0x40), name="heat, by the hardware", fires=ONE),
    replace(reasons(0x20, 0, 0), name="heat, by the driver, one third of the time", fires=ONE),
    replace(reasons(0x80 | 0x4), name="the power brake beside the limit", fires=ONE),
    replace(reasons(0), name="none"),
    replace(reasons(0x4), name="the limit that was set"),
    replace(reasons(0x1), name="idle"),
    replace(reasons(0x40, 0, 0, 0, 0, 0, 0, 0), name="now and then"),
    RuleCase("no GPU", recorded=SECOND_STEP),
]

test_cases = every_case(RULE, CASES)
