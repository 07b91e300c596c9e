"""A rule from a file sees in its process what the other rules see: tensors, the machine, and facts about the speed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.evaluation.evaluator import evaluate
from trackside.records.machine.performance_facts import PerformanceFacts, encode_performance
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import WALL_TIME, end_run, write_collections, write_statistics, write_tensors

LOSS = "CrossEntropyLoss_output_0"
FILE = """
from dataclasses import dataclass

from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule, parameter


@dataclass(frozen=True)
class Sees(Rule):
    '''A question about the run has the answer yes.'''

    rule_id, since = "sees", "1.0"
    watches, save_interval = ("losses",), 1
    severity = Severity.WARNING
    what_to_do = ("Nothing.",)

    question: str = parameter("", "the question")

    def check(self, window):
        if eval(self.question):
            yield Finding(self.question, window.step, window.step, "answer", 1.0, ">", 0.0)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = RunLocation(str(tmp_path / "run"))
    saved = LocalStore(run.tensors)
    write_collections(saved)
    for step in (0, 10, 19):
        write_tensors(saved, step, {LOSS: 2.0})
    write_statistics(LocalStore(run.statistics), {LOSS: {"mean": dict.fromkeys(range(20), 1.0)}})
    profiles = LocalStore(run.profiles)
    lines = [
        {"Type": "gpu", "Name": f"gpu{number}", "Dimension": "GPUUtilization", "Value": 10.0 * (number + 1),
         "NodeId": "algo-1", "Timestamp": WALL_TIME + second}
        for second in range(10)
        for number in range(2)
    ]  # fmt: skip
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    profiles.put(f"system/incremental/2026112307/{int(WALL_TIME)}.algo-1.json", text.encode())
    profiles.put("performance/worker_0.json", encode_performance(PerformanceFacts(device="cuda", workers=4)))
    end_run(saved)
    (tmp_path / "rules.py").write_text(FILE, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("question", "is_so"),
    [
        pytest.param(f"window.tensors('losses') == ('{LOSS}',)", True, id="tensors"),
        pytest.param("[s.name for s in window.machine('GPUUtilization')] == ['gpu0', 'gpu1']", True, id="machine"),
        pytest.param(
            "[s.values.mean() for s in window.machine('GPUUtilization', name='gpu1')] == [20.0]", True, id="one-device"
        ),
        pytest.param("window.machine('CPUUtilizationTotal')", False, id="what-nobody-measured"),
        pytest.param("window.speed_facts['worker_0'].workers == 4", True, id="speed"),
        pytest.param("window.speed_facts['worker_0'].workers == 5", False, id="another-speed"),
        pytest.param(f"window.profile.step_at({WALL_TIME} + 7.5) == 7", True, id="step-at"),
        pytest.param(f"window.profile.first_end() == {WALL_TIME}", True, id="first-end"),
    ],
)
def test_it_sees_the_run(run: Path, question: str, is_so: bool) -> None:
    mine = RuleConfiguration("Sees", parameters={"question": question}, source=str(run / "rules.py"))
    summary = evaluate(
        RunLocation(str(run / "run")),
        RuleRequest((mine,)),
        [],
        poll_seconds=0.01,
        clock=time.time,
        sleep=time.sleep,
        should_stop=lambda: False,
    )
    outcomes = {verdict.outcome.value for verdict in summary.verdicts}
    assert "not-evaluated" not in outcomes, [verdict.message for verdict in summary.verdicts]
    assert ("issue-found" in outcomes) is is_so
