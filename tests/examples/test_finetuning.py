"""The example of GRPO by hand: each planted mistake is named, and the right program is left alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS
from trackside.contracts.verdict import Outcome, Verdict
from trackside.environment import inherited

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "finetuning" / "grpo.py"
RULES = {
    "none": None,
    "accepts-all": "reward-without-progress",
    "sign": "reward-without-progress",
    "never-ends": "unended-answers",
}


@pytest.mark.parametrize("fault", RULES)
def test_the_planted_mistake_is_named(tmp_path: Path, fault: str) -> None:
    command = [sys.executable, "-m", "trackside", "run", "--", sys.executable, str(SCRIPT), "--fault", fault]
    done = subprocess.run(
        command, cwd=tmp_path, env=inherited(), capture_output=True, text=True, timeout=HANGS_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    (verdicts,) = tmp_path.glob("**/rule-output/verdicts.jsonl")
    found = [Verdict.from_json(line) for line in verdicts.read_text("utf-8").splitlines()]
    issues = {one.rule_id for one in found if one.outcome is Outcome.ISSUE_FOUND}
    assert (RULES[fault] in issues) if RULES[fault] else not issues, done.stderr
