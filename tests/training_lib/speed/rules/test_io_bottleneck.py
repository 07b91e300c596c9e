"""io-bottleneck: processors wait for a disk, while a GPU is idle."""

from __future__ import annotations

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import SECOND_STEP, gpus, metric, steps
from trackside.speed.rules.io_bottleneck import IoBottleneck
from trackside.testing.rule_case import RuleCase, assert_case

RULE = IoBottleneck(patience=100)
IDLE, BUSY = [5.0] * 120, [95.0] * 120


def waits(*values: float) -> dict[tuple[str, ...], dict[float, float]]:
    return dict(metric("processors", "total", "I/OWaitPercentageTotal", list(values) * (120 // len(values))))  # type: ignore[arg-type]


def own(*processes: float) -> dict[tuple[str, ...], dict[float, float]]:
    """Processes of the training that wait for a disk."""
    values = list(processes) * (18 // len(processes))
    return dict(metric("process", "training", "ProcessesInDiskWait", values))  # type: ignore[arg-type]


CASES = [
    RuleCase(
        "beside an idle GPU", recorded=SECOND_STEP, machine={**gpus(IDLE), **waits(80)}, fires=("gpu0 of algo-1",)
    ),
    RuleCase("without a GPU", recorded=SECOND_STEP, machine=waits(80), fires=("algo-1",)),
    RuleCase("most of the time", recorded=SECOND_STEP, machine=waits(80, 80, 0), fires=("algo-1",)),
    RuleCase("a busy GPU", recorded=SECOND_STEP, machine={**gpus(BUSY), **waits(80)}),
    RuleCase("short waits", recorded=SECOND_STEP, machine=waits(40)),
    RuleCase("now and then", recorded=SECOND_STEP, machine=waits(80, 0, 0)),
    RuleCase(
        "the training waits, and the processors have other work",
        recorded=steps([0.02] * 20, data=[0.015] * 20),
        machine=own(1, 0),
        fires=("the training on algo-1",),
    ),
    RuleCase(
        "a loop without a DataLoader waits",
        recorded=steps([0.02] * 20),
        machine=own(2),
        fires=("the training on algo-1",),
    ),
    RuleCase(
        "the training waits seldom, for it is seldom allowed to",
        recorded=steps([0.2] * 20, data=[0.05] * 20, waits=[0.14] * 20, waits_in_data=[0.01] * 20),
        machine=own(1, 0, 0),
        fires=("the training on algo-1",),
    ),
    RuleCase(
        "a wait or two of a training that is seldom allowed to run",
        recorded=steps([0.2] * 20, data=[0.05] * 20, waits=[0.14] * 20, waits_in_data=[0.01] * 20),
        machine=own(1, 1, *[0] * 16),
    ),
    RuleCase(
        "other work holds the training up, and no disk",
        recorded=steps([0.2] * 20, data=[0.05] * 20, waits=[0.14] * 20, waits_in_data=[0.01] * 20),
        machine=own(0),
    ),
    RuleCase("workers read ahead", recorded=steps([0.02] * 20, data=[0.0001] * 20), machine=own(6)),
    RuleCase("the training waits seldom", recorded=steps([0.02] * 20), machine=own(1, 0, 0)),
    RuleCase("nothing sampled", recorded=SECOND_STEP),
]

test_cases = every_case(RULE, CASES)


def test_in_amazons_sense_only_processors_wait() -> None:
    rule = IoBottleneck.from_parameters({}, preset="aws-docs")
    assert_case(rule, RuleCase("own", recorded=steps([0.02] * 20), machine=own(2)))
