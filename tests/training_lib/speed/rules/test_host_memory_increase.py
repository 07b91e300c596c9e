"""host-memory-increase: the memory of the training rises without end."""

from __future__ import annotations

from dataclasses import replace

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import SECOND_STEP, metric
from trackside.speed.rules.host_memory_increase import HostMemoryIncrease
from trackside.testing.rule_case import RuleCase

RULE = HostMemoryIncrease()
GIB = float(1 << 30)


def memory(values: list[float]) -> RuleCase:
    return RuleCase("", recorded=SECOND_STEP, machine=metric("process", "training", "ProcessMemoryBytes", values))


ONE = ("the training on algo-1",)
CASES = [
    replace(memory([GIB * (1 + k / 100) for k in range(200)]), name="steadily", fires=ONE),
    replace(memory([GIB] * 150 + [GIB * (1 + k / 50) for k in range(150)]), name="from the middle on", fires=ONE),
    replace(memory([GIB * (1 + k // 20 / 5 + k % 2 / 100) for k in range(300)]), name="in stairs", fires=ONE),
    replace(memory([GIB] * 300), name="steady"),
    replace(memory([GIB * min(4, 1 + k / 20) for k in range(300)]), name="until the caches are full"),
    replace(memory([GIB * (1 + k % 40 / 20) for k in range(300)]), name="up and down"),
    replace(memory([GIB + k * 1e5 for k in range(300)]), name="30 MB in five minutes"),
    replace(memory([GIB * (1 + k / 20) for k in range(100)]), name="too short"),
    RuleCase("nothing sampled", recorded=SECOND_STEP),
]

test_cases = every_case(RULE, CASES)
