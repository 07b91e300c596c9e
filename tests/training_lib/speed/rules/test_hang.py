"""hang: no step for longer than the run's own past explains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.training_lib.speed.rules.machines import steps
from trackside.records.machine.performance_facts import HangFacts, PerformanceFacts
from trackside.speed.rules.hang import Hang
from trackside.testing.rule_case import RuleCase

FOUND = HangFacts("data", 80, 1e9, 61.0, 60.0, "train.py:12", "slow", "queue.get()", "Thread MainThread:", False)
REPORTED = {"worker_0": PerformanceFacts(hang=FOUND)}
OVER = {"worker_0": PerformanceFacts(hang=replace(FOUND, is_over=True))}
SHORT, LONG = steps([0.1] * 80), steps([0.1] * 79 + [30.0])
EVALUATED = steps([0.1] * 79 + [30.0], evaluation={80: 29.9})


@pytest.mark.parametrize(
    ("recorded", "facts", "waited", "limit"),
    [
        pytest.param(SHORT, REPORTED, 61, 60, id="the-process-reports-it"),
        pytest.param(LONG, REPORTED, 151, 150, id="longer-than-the-longest-step-explains"),
        pytest.param(SHORT, {}, 601, 600, id="a-silent-process"),
        pytest.param(SHORT, OVER, 601, 600, id="a-process-that-went-on-and-is-silent-now"),
        pytest.param(SHORT, REPORTED, 59, None, id="not-yet"),
        pytest.param(LONG, REPORTED, 149, None, id="the-longest-step-explains-it"),
        pytest.param(EVALUATED, REPORTED, 149, None, id="so-does-an-evaluation"),
        pytest.param(SHORT, {}, 599, None, id="silent-and-not-yet"),
        pytest.param(SHORT, OVER, 100, None, id="it-went-on"),
        pytest.param(steps([0.1] * 4), REPORTED, 1000, None, id="no-past"),
        pytest.param({}, REPORTED, 1000, None, id="nothing-timed"),
    ],
)
def test_cases(
    recorded: dict[str, dict[str, dict[int, float]]],
    facts: dict[str, PerformanceFacts],
    waited: float,
    limit: float | None,
) -> None:
    window = RuleCase("", recorded=recorded, speed=facts).window
    found = list(Hang().check(replace(window, newest_step_at=1e9, now=1e9 + waited)))
    assert [finding.threshold for finding in found] == ([] if limit is None else [limit])


def test_names_the_line_of_the_training() -> None:
    window = replace(RuleCase("", recorded=SHORT, speed=REPORTED).window, newest_step_at=1e9, now=1e9 + 100)
    (finding,) = Hang().check(window)
    assert (finding.place, finding.worker) == ("train.py:12", "worker_0")
    assert "in data" in finding.measure
    (suspicion,) = Hang().suspicions([finding], window)
    assert suspicion.because == "train.py:12 in slow: queue.get()"
