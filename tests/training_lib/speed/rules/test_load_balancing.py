"""load-balancing: the GPUs of a training are used unevenly."""

from __future__ import annotations

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import SECOND_STEP, gpus
from trackside.speed.rules.load_balancing import LoadBalancing
from trackside.testing.rule_case import RuleCase

RULE = LoadBalancing(patience=100)
IDLE, BUSY = [0.0] * 120, [95.0] * 120
CASES = [
    RuleCase("one idles", recorded=SECOND_STEP, machine=gpus(BUSY, IDLE, BUSY), fires=("gpu1 of algo-1",)),
    RuleCase("one of two idles", recorded=SECOND_STEP, machine=gpus(BUSY, IDLE), fires=("gpu1 of algo-1",)),
    RuleCase("one works", recorded=SECOND_STEP, machine=gpus(IDLE, IDLE, BUSY), fires=("gpu2 of algo-1",)),
    RuleCase("all work", recorded=SECOND_STEP, machine=gpus(BUSY, BUSY, BUSY)),
    RuleCase("all alike", recorded=SECOND_STEP, machine=gpus([20.0, 90.0] * 60, [90.0, 20.0] * 60)),
    RuleCase("a small difference", recorded=SECOND_STEP, machine=gpus(BUSY, [95.0] * 90 + [40.0] * 30)),
    RuleCase("one GPU", recorded=SECOND_STEP, machine=gpus(IDLE)),
    RuleCase("too few samples", recorded=SECOND_STEP, machine=gpus(BUSY, IDLE[:99])),
]

test_cases = every_case(RULE, CASES)
