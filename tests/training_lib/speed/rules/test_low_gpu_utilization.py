"""low-gpu-utilization: a GPU is used little, or by fits and starts."""

from __future__ import annotations

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import SECOND_STEP, gpus
from trackside.speed.rules.low_gpu_utilization import LowGpuUtilization
from trackside.testing.rule_case import RuleCase

RULE = LowGpuUtilization(patience=100, window=100)
ONE = ("gpu0 of algo-1",)
CASES = [
    RuleCase("little", recorded=SECOND_STEP, machine=gpus([30.0] * 120), fires=ONE),
    RuleCase("up and down", recorded=SECOND_STEP, machine=gpus([0.0, 95.0] * 60), fires=ONE),
    RuleCase("little of late", recorded=SECOND_STEP, machine=gpus([95.0] * 100 + [10.0] * 100), fires=ONE),
    RuleCase("one of two", recorded=SECOND_STEP, machine=gpus([30.0] * 120, [90.0] * 120), fires=ONE),
    RuleCase("much", recorded=SECOND_STEP, machine=gpus([95.0] * 120)),
    RuleCase("little at first", recorded=SECOND_STEP, machine=gpus([10.0] * 100 + [95.0] * 100)),
    RuleCase("pauses of some steps", recorded=SECOND_STEP, machine=gpus(([95.0] * 49 + [0.0]) * 3)),
    RuleCase("too few samples", recorded=SECOND_STEP, machine=gpus([30.0] * 99)),
    RuleCase("no GPU", recorded=SECOND_STEP),
]

test_cases = every_case(RULE, CASES)
