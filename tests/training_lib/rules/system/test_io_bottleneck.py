"""io-bottleneck: processors wait for a disk, while a GPU is idle."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.system.machines import SECOND_STEP, gpus, metric
from trackside.rules.system.io_bottleneck import IoBottleneck
from trackside.testing.rule_case import RuleCase, assert_case

RULE = IoBottleneck(patience=100)
IDLE, BUSY = [5.0] * 120, [95.0] * 120


def waits(*values: float) -> dict[tuple[str, ...], dict[float, float]]:
    return dict(metric("processors", "total", "I/OWaitPercentageTotal", list(values) * (120 // len(values))))  # type: ignore[arg-type]


CASES = [
    RuleCase(
        "beside an idle GPU", recorded=SECOND_STEP, machine={**gpus(IDLE), **waits(80)}, fires=("gpu0 of algo-1",)
    ),
    RuleCase("without a GPU", recorded=SECOND_STEP, machine=waits(80), fires=("algo-1",)),
    RuleCase("most of the time", recorded=SECOND_STEP, machine=waits(80, 80, 0), fires=("algo-1",)),
    RuleCase("a busy GPU", recorded=SECOND_STEP, machine={**gpus(BUSY), **waits(80)}),
    RuleCase("short waits", recorded=SECOND_STEP, machine=waits(40)),
    RuleCase("now and then", recorded=SECOND_STEP, machine=waits(80, 0, 0)),
    RuleCase("nothing sampled", recorded=SECOND_STEP),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    assert_case(RULE, case)
