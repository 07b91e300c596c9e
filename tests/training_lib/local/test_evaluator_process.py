from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS, wait_until
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.environment import inherited
from trackside.evaluation import exit_codes
from trackside.local.evaluator_process import (
    BAD_CONFIGURATION,
    JUDGED_TO_THE_END,
    MOST_RESTARTS,
    EvaluatorProcess,
    EvaluatorState,
)
from trackside.local.process_table import living_processes


class Clock:
    """Ticks an hour whenever it is read, so that no pause before a restart is waited for."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 3600
        return self.now


def start(folder: Path, code: str, said: list[str], *, environment: dict[str, str] | None = None) -> EvaluatorProcess:
    return EvaluatorProcess(
        folder,
        environment=environment or inherited(),
        note=said.append,
        monotonic=Clock(),
        command=(sys.executable, "-c", code),
    )


def tend_to_the_end(evaluator: EvaluatorProcess) -> EvaluatorState:
    wait_until(lambda: evaluator.tend() is not EvaluatorState.RUNNING)
    return evaluator.state


def test_the_exit_codes_are_those_of_the_evaluator() -> None:
    assert JUDGED_TO_THE_END == (exit_codes.JUDGED, exit_codes.RULE_CRASHED)
    assert BAD_CONFIGURATION == exit_codes.BAD_CONFIGURATION


@pytest.mark.parametrize("status", JUDGED_TO_THE_END)
def test_one_that_judged_to_the_end_has_ended(tmp_path: Path, status: int) -> None:
    said: list[str] = []
    assert tend_to_the_end(start(tmp_path, f"raise SystemExit({status})", said)) is EvaluatorState.ENDED
    assert said == []


def test_a_refused_configuration_is_not_tried_again(tmp_path: Path) -> None:
    said: list[str] = []
    evaluator = start(tmp_path, "import sys; sys.stderr.write('Unknown rule.\\n'); sys.exit(2)", said)
    assert tend_to_the_end(evaluator) is EvaluatorState.GIVEN_UP
    assert len(said) == 1
    assert "Unknown rule." in said[0]
    assert "The training goes on." in said[0]


def test_one_that_keeps_dying_is_started_again_a_few_times_and_then_given_up(tmp_path: Path) -> None:
    said: list[str] = []
    evaluator = start(tmp_path, "open('starts', 'a').write('x'); raise SystemExit(3)", said)
    assert tend_to_the_end(evaluator) is EvaluatorState.GIVEN_UP
    assert (tmp_path / "starts").read_text() == "x" * (1 + MOST_RESTARTS)
    assert [("continues where it was" in line) for line in said] == [True] * MOST_RESTARTS + [False]
    assert "exit code 3" in evaluator.problem


def test_one_that_was_killed_continues(tmp_path: Path) -> None:
    code = "import os, signal; os.path.exists('was') or (open('was', 'w'), os.kill(os.getpid(), signal.SIGKILL))"
    said: list[str] = []
    assert tend_to_the_end(start(tmp_path, code, said)) is EvaluatorState.ENDED
    assert said == ["The evaluator ended (killed by SIGKILL); it continues where it was (restart 1/3)."]


def test_one_that_cannot_be_started_at_all_says_its_last_words(tmp_path: Path) -> None:
    said: list[str] = []
    evaluator = EvaluatorProcess(
        tmp_path,
        environment=inherited(),
        note=said.append,
        monotonic=Clock(),
        command=(sys.executable, "-m", "no_such_module_of_ours"),
    )
    assert tend_to_the_end(evaluator) is EvaluatorState.GIVEN_UP
    assert "No module named no_such_module_of_ours" in evaluator.problem


def test_what_starts_capture_is_not_handed_down(tmp_path: Path) -> None:
    code = "import os; open('names', 'w').write(' '.join(n for n in os.environ if n.startswith('TRACKSIDE')))"
    environment = {**inherited(), "TRACKSIDE_RUN": str(tmp_path), "TRACKSIDE_CAPTURE_REQUEST": "{}"}
    tend_to_the_end(start(tmp_path, code, [], environment=environment))
    assert (tmp_path / "names").read_text() == "TRACKSIDE_POLL_SECONDS"


def test_finishing_lets_it_judge_what_is_there(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time; signal.signal(signal.SIGINT, lambda *a: (open('swept', 'w'), sys.exit(0)))\n"
        "open('up', 'w'); time.sleep(3600)"
    )
    evaluator = start(tmp_path, code, [])
    evaluator.tend()
    wait_until((tmp_path / "up").exists)
    evaluator.finish(grace_seconds=HANGS_SECONDS)
    assert (tmp_path / "swept").exists()
    assert (evaluator.state, evaluator.problem) == (EvaluatorState.ENDED, "")


def test_it_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "rule-request.json").write_text(RuleRequest((RuleConfiguration("overfit"),)).to_json())
    code = f"""
import os, pathlib, signal, sys, time
from trackside.environment import inherited
from trackside.local.evaluator_process import EvaluatorProcess
e = EvaluatorProcess(pathlib.Path({str(tmp_path)!r}), environment=inherited(), note=print, monotonic=time.monotonic)
e.tend()
pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(e.pid))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: pid not in living_processes())
    assert os.getpid() != pid
