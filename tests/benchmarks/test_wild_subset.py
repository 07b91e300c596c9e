"""Two programs of strangers, trained and judged: nothing is said about them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.engine.judge import judge_once
from benchmarks.wild import run
from benchmarks.wild.program import all_families
from benchmarks.wild.run import Job
from trackside.contracts.verdict import Severity


@pytest.mark.parametrize("name", ["torch-averaged-weights", "torch-line-search"])
def test_a_program_of_pytorch_trains_and_raises_no_alarm(name: str, tmp_path: Path) -> None:
    job = Job(all_families()["pytorch"].programs[name], 0)
    outcome = run.train(job, tmp_path, python=Path(sys.executable))
    assert outcome.status == 0, (tmp_path / "output.txt").read_text()
    found = judge_once(tmp_path)
    assert found.steps >= 30
    assert found.losses[1] < 0.5 * found.losses[0]
    assert found.at_least(Severity.WARNING) == ()
    assert judge_once(tmp_path) == found
