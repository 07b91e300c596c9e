"""gpu-memory-increase: the memory of a GPU in use rises."""

from __future__ import annotations

from dataclasses import replace

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import SECOND_STEP, metric
from trackside.speed.rules.gpu_memory_increase import GpuMemoryIncrease
from trackside.testing.rule_case import RuleCase

RULE = GpuMemoryIncrease(patience=100, window=50)


def memory(values: list[float]) -> RuleCase:
    return RuleCase("", recorded=SECOND_STEP, machine=metric("gpu", "gpu0", "GPUMemoryUtilization", values))


ONE = ("gpu0 of algo-1",)
CASES = [
    replace(memory([k / 5 for k in range(200)]), name="steadily", fires=ONE),
    replace(memory([40.0] * 60 + [50.0] * 60), name="at once", fires=ONE),
    replace(memory([40.0] * 120), name="steady"),
    replace(memory([10.0] * 20 + [40.0] * 130), name="at the start"),
    replace(memory([60.0] * 60 + [40.0] * 60), name="falling"),
    replace(memory([40.0, 60.0] * 60), name="up and down"),
    replace(memory([40.0] * 49 + [90.0] * 50), name="too few samples"),
    replace(memory([40.0] * 60 + [44.0] * 60), name="a little"),
]

test_cases = every_case(RULE, CASES)
