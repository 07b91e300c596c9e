"""step-outlier: single steps take much longer than the others."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.tables import every_case
from tests.training_lib.speed.rules.machines import steps
from trackside.records.machine.performance_facts import GarbageFacts, PerformanceFacts
from trackside.speed.rules.step_outlier import StepOutlier
from trackside.testing.rule_case import RuleCase, assert_case

RULE = StepOutlier()
USUAL = [0.01 + 0.0001 * (k % 7) for k in range(400)]


def paused(every: int, seconds: float) -> list[float]:
    return [second + (seconds if k % every == every - 1 else 0) for k, second in enumerate(USUAL)]


ONE = ("steps",)
CASES = [
    RuleCase("every 25th step pauses", recorded=steps(paused(25, 0.3)), fires=ONE),
    RuleCase("every 15th step pauses", recorded=steps(paused(15, 0.1)), fires=ONE),
    RuleCase("as usual", recorded=steps(USUAL)),
    RuleCase("five pauses", recorded=steps(paused(80, 0.3))),
    RuleCase("pauses that cost little", recorded=steps(paused(25, 0.004))),
    RuleCase("evaluations by hand of milliseconds", recorded=steps([s / 10 for s in paused(25, 0.04)])),
    RuleCase("pauses of a quick loop", recorded=steps([s / 10 for s in paused(25, 0.15)]), fires=ONE),
    RuleCase("every second step is long", recorded=steps(paused(2, 0.1))),
    RuleCase("evaluations", recorded=steps(paused(25, 0.3), evaluation=dict.fromkeys(range(25, 401, 25), 0.3))),
    RuleCase("our own cost", recorded=steps(paused(25, 0.3), capture=[0.3 if k % 25 == 24 else 0 for k in range(400)])),
    RuleCase(
        "pauses in which other work had the processor",
        recorded=steps(paused(25, 0.3), waits=[0.3 if k % 25 == 24 else 0.0 for k in range(400)]),
    ),
    RuleCase("pauses beside other work", recorded=steps(paused(25, 0.3), waits=[0.005] * 400), fires=ONE),
    RuleCase("the first step", recorded=steps([9.0, 5.0, *USUAL])),
    RuleCase("too few steps", recorded=steps(USUAL[:25])),
]


def test_in_amazons_sense_cheap_outliers_count() -> None:
    rule = StepOutlier.from_parameters({}, preset="aws-sdk")
    assert_case(rule, RuleCase("cheap", recorded=steps(paused(25, 0.004)), fires=ONE))


@pytest.mark.parametrize(
    ("longest_seconds", "because"),
    [
        pytest.param(0.25, "Python collected all garbage 16 times in these steps, for 4 s", id="garbage"),
        pytest.param(0.01, "", id="short-collections"),
    ],
)
def test_names_garbage_collection(longest_seconds: float, because: str) -> None:
    garbage = GarbageFacts(16, 4.0, longest_seconds, 400)
    speed = {"worker_0": PerformanceFacts(garbage=garbage)}
    window = RuleCase("", recorded=steps(paused(25, 0.3)), speed=speed).window
    (finding,) = RULE.check(window)
    (suspicion,) = RULE.suspicions([finding], window)
    assert suspicion.because == because


def test_another_mode_has_no_timed_step() -> None:
    window = RuleCase("", recorded=steps(paused(25, 0.3))).window
    assert list(StepOutlier(mode="EVAL").check(window)) == []
    assert "EVAL" in StepOutlier(mode="EVAL").lacks(window)


test_cases = every_case(RULE, CASES)
