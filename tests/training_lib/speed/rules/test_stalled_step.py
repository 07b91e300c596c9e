"""stalled-step: a line of the loop holds up each step."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import steps
from trackside.records.machine.performance_facts import LineSamples, PerformanceFacts
from trackside.speed.rules.stalled_step import StalledStep
from trackside.testing.rule_case import RuleCase

RULE = StalledStep()
STEP = steps([0.02] * 20)
ONE = ("steps",)


def facts(
    code: str, samples: int = 60, *, others: int = 60, library: str = "", phase: str = "other",
    is_in_model: bool = False, device: str = "cpu",
) -> dict[str, PerformanceFacts]:  # fmt: skip
    """Samples of a line, and of the backward pass beside it."""
    lines = (
        LineSamples(phase, "train.py:40", "work", code, library, is_in_model, samples),
        LineSamples("backward", "train.py:38", "work", "loss.backward()", "", False, others),
    )
    return {"worker_0": PerformanceFacts(device=device, processors=2, lines=lines)}


CASES = [
    RuleCase("a sleep", recorded=STEP, speed=facts("time.sleep(0.01)"), fires=ONE),
    RuleCase("ranks meet", recorded=STEP, speed=facts("dist.all_reduce(loss)"), fires=ONE),
    RuleCase(
        "ranks meet in a helper", recorded=STEP, fires=ONE,
        speed=facts("everyone = gathered(loss)", library="torch.distributed.distributed_c10d.all_gather"),
    ),
    RuleCase("output", recorded=STEP, speed=facts("torch.save(model, path)"), fires=ONE),
    RuleCase("garbage", recorded=STEP, speed=facts("gc.collect()"), fires=ONE),
    RuleCase("a wait for a GPU", recorded=STEP, speed=facts("total += loss.item()", device="cuda"), fires=ONE),
    RuleCase("the same on a processor", recorded=STEP, speed=facts("total += loss.item()")),
    RuleCase("work of the script", recorded=STEP, speed=facts("score = metric(outputs)")),
    RuleCase("a sleep in the data set", recorded=STEP, speed=facts("time.sleep(0.01)", phase="data")),
    RuleCase("a model that prints", recorded=STEP, speed=facts("print(x)", is_in_model=True)),
    RuleCase("a short sleep", recorded=STEP, speed=facts("time.sleep(0.001)", 12, others=200)),
    RuleCase("steps of a tenth of a millisecond", recorded=steps([1e-4] * 20), speed=facts("time.sleep(0.01)")),
    RuleCase("few samples", recorded=STEP, speed=facts("time.sleep(0.01)", 40, others=10)),
    RuleCase("no timed step", speed=facts("time.sleep(0.01)"), recorded=steps([0.02] * 2)),
]  # fmt: skip


def test_names_the_line_its_kind_and_the_change() -> None:
    window = RuleCase("", recorded=STEP, speed=facts("dist.barrier()")).window
    (finding,) = RULE.check(window)
    assert finding.place == "train.py:40"
    assert finding.statistics["stall_ms"] == pytest.approx(10.0)
    (suspicion,) = RULE.suspicions([finding], window)
    assert suspicion.because.startswith("the line is a meeting of all ranks: let the ranks meet")


test_cases = every_case(RULE, CASES)
