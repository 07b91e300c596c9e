"""batch-size: GPU, its memory and the processors are all in little use."""

from __future__ import annotations

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import SECOND_STEP, gpus
from trackside.speed.rules.batch_size import BatchSize
from trackside.testing.rule_case import RuleCase

RULE = BatchSize(patience=100, window=100)
LITTLE, MUCH = [20.0] * 120, [95.0] * 120
ONE, TWO = ("gpu0 of algo-1",), ("gpu0 of algo-1", "gpu1 of algo-1")
CASES = [
    RuleCase("all in little use", recorded=SECOND_STEP, machine=gpus(LITTLE, memory=LITTLE, cpu=LITTLE), fires=ONE),
    RuleCase("of two GPUs", recorded=SECOND_STEP, machine=gpus(LITTLE, LITTLE, memory=LITTLE, cpu=LITTLE), fires=TWO),
    RuleCase("busy at first", recorded=SECOND_STEP, machine=gpus(MUCH + LITTLE, memory=LITTLE, cpu=LITTLE), fires=ONE),
    RuleCase("a busy GPU", recorded=SECOND_STEP, machine=gpus(MUCH, memory=LITTLE, cpu=LITTLE)),
    RuleCase("a full GPU", recorded=SECOND_STEP, machine=gpus(LITTLE, memory=MUCH, cpu=LITTLE)),
    RuleCase("busy processors", recorded=SECOND_STEP, machine=gpus(LITTLE, memory=LITTLE, cpu=MUCH)),
    RuleCase("a GPU that nobody uses", recorded=SECOND_STEP, machine=gpus([0.0] * 120, memory=LITTLE, cpu=LITTLE)),
    RuleCase("too few samples", recorded=SECOND_STEP, machine=gpus([20.0] * 99, memory=LITTLE, cpu=LITTLE)),
    RuleCase("bursts", recorded=SECOND_STEP, machine=gpus([20.0, 20.0, 90.0] * 40, memory=LITTLE, cpu=LITTLE)),
    RuleCase("no GPU", recorded=SECOND_STEP, machine=gpus(cpu=LITTLE)),
]

test_cases = every_case(RULE, CASES)
