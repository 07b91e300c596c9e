"""cpu-bottleneck: processors are busy while a GPU is idle."""

from __future__ import annotations

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import SECOND_STEP, gpus, metric
from trackside.speed.rules.cpu_bottleneck import CpuBottleneck
from trackside.testing.rule_case import RuleCase

RULE = CpuBottleneck(patience=100)
IDLE, BUSY = [5.0] * 120, [95.0] * 120
ONE = ("gpu0 of algo-1",)
AMAZONS_CORES = {
    **gpus(IDLE),
    **metric("cpu", "cpu0", "CPUUtilization", [91.0] * 120),
    **metric("cpu", "cpu1", "CPUUtilization", [99.0] * 120),
}
CASES = [
    RuleCase("all the time", recorded=SECOND_STEP, machine=gpus(IDLE, cpu=BUSY), fires=ONE),
    RuleCase("most of the time", recorded=SECOND_STEP, machine=gpus(IDLE, cpu=[95, 95, 20] * 40), fires=ONE),
    RuleCase("cores, as SageMaker samples them", recorded=SECOND_STEP, machine=AMAZONS_CORES, fires=ONE),
    RuleCase("one of two GPUs", recorded=SECOND_STEP, machine=gpus(IDLE, BUSY, cpu=BUSY), fires=ONE),
    RuleCase("a busy GPU", recorded=SECOND_STEP, machine=gpus(BUSY, cpu=BUSY)),
    RuleCase("idle processors", recorded=SECOND_STEP, machine=gpus(IDLE, cpu=IDLE)),
    RuleCase("one third of the time", recorded=SECOND_STEP, machine=gpus(IDLE, cpu=[95, 20, 20] * 40)),
    RuleCase("too few samples", recorded=SECOND_STEP, machine=gpus(IDLE[:99], cpu=BUSY)),
    RuleCase("no GPU", recorded=SECOND_STEP, machine=gpus(cpu=BUSY)),
]

test_cases = every_case(RULE, CASES)
