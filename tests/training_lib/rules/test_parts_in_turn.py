"""Real trainings whose parts have their turn later or that begin anew stay silent; their faulty twins are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.detection.corpus.catalogue import all_programs
from benchmarks.detection.train import Job
from benchmarks.engine.judge import judge
from benchmarks.engine.stored import RUN
from benchmarks.engine.usual import rules_of, whole_capture
from tests.patience import HANGS_SECONDS
from trackside.contracts.verdict import Severity

REPOSITORY = Path(__file__).parents[3]
NOT_TRAINED, VANISHING, STUCK = "parameters-not-trained", "vanishing-gradient", "loss-not-decreasing"
RULES = (NOT_TRAINED, VANISHING, STUCK, "unsuitable-loss")
CLEAN = ("digits-thawed", "digits-two-models", "narrow-transformer")
FAULTY = [
    ("digits-thawed", "frozen-layers", NOT_TRAINED),
    ("digits-two-models", "parameters-not-in-optimizer", NOT_TRAINED),
]


def job(program: str, fault: str) -> Job:
    return Job(all_programs()[program], fault, 0, whole_capture().to_json())


def alarms(program: str, fault: str, root: Path) -> set[str]:
    found = judge(job(program, fault).folder(root) / RUN, [rule for rule in rules_of() if rule.rule_id in RULES])
    assert found.steps
    assert not found.crashed
    return {alarm.rule for alarm in found.at_least(Severity.WARNING)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all of these runs, each trained in a process of its own."""
    root = tmp_path_factory.mktemp("detection")
    names = [*(f"{program}/clean" for program in CLEAN), *(f"{program}/{fault}" for program, fault, _ in FAULTY)]
    command = [
        sys.executable,
        "-m",
        "benchmarks.detection.train",
        "--split",
        "tune",
        "--seeds",
        "1",
        "--processes",
        "1",
    ]
    done = subprocess.run(
        [*command, "--root", str(root), "--only", *names],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    return root


@pytest.mark.parametrize("program", CLEAN)
def test_clean_runs_are_silent(program: str, trained: Path) -> None:
    assert alarms(program, "", trained) == set()


@pytest.mark.parametrize(("program", "fault", "rule"), FAULTY, ids=[program for program, *_ in FAULTY])
def test_faulty_runs_are_found(program: str, fault: str, rule: str, trained: Path) -> None:
    assert rule in alarms(program, fault, trained)
