"""max-initialization-time: the first step came late."""

from __future__ import annotations

from dataclasses import replace

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import gpus
from trackside.contracts.run.recorded_names import STEP_SECONDS
from trackside.speed.rules.max_initialization_time import MaxInitializationTime
from trackside.testing.rule_case import RuleCase

RULE = MaxInitializationTime(threshold=10)


def first_step_at(second: int) -> RuleCase:
    return RuleCase(
        "", recorded={STEP_SECONDS: {"mean": {second: 0.1, second + 1: 0.1}}}, machine=gpus(cpu=[50.0] * (second + 1))
    )


CASES = [
    replace(first_step_at(601), name="just above", fires=("steps",)),
    replace(first_step_at(3600), name="an hour", fires=("steps",)),
    replace(first_step_at(599), name="just below"),
    replace(first_step_at(1), name="at once"),
    RuleCase("nothing sampled", recorded={STEP_SECONDS: {"mean": {3600: 0.1}}}),
]

test_cases = every_case(RULE, CASES)
