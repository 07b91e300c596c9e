"""stalled-training: no step has come for a long time. How it is asked: tests/training_lib/evaluation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trackside.contracts.cause import Cause
from trackside.rules.tensors.stalled_training import StalledTraining, is_stalled
from trackside.testing.rule_case import RuleCase, assert_case, assert_finding

RUN = RuleCase("a run", recorded={"Loss_output_0": {"mean": {0: 1.0, 1: 1.0}}})


@pytest.mark.parametrize(
    ("waited", "threshold", "fires"),
    [
        pytest.param(1801.0, 1800, True, id="longer-than-the-threshold"),
        pytest.param(1e6, 1800, True, id="for-days"),
        pytest.param(61.0, 60, True, id="a-short-threshold"),
        pytest.param(1800.0, 1800, False, id="just-as-long"),
        pytest.param(0.0, 1800, False, id="a-step-has-come"),
        pytest.param(-5.0, 1800, False, id="a-clock-that-was-set-back"),
    ],
)
def test_cases(waited: float, threshold: int, fires: bool) -> None:
    window = replace(RUN.window, newest_step_at=RUN.window.now - waited)
    findings = list(StalledTraining(threshold=threshold).check(window))
    assert bool(findings) is fires
    assert is_stalled(waited_seconds=waited, threshold=threshold) is fires
    for finding in findings:
        assert_finding(finding, step=1)
        assert finding.observed == waited
        assert [s.cause for s in StalledTraining().suspicions(findings, window)] == [Cause.STALLED]


def test_a_run_that_is_read_afterwards_never_stalls() -> None:
    assert_case(StalledTraining(), RUN)
