"""The examples of XGBoost and Keras: the planted mistake is named, and the healthy twin meets silence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS
from trackside.contracts.verdict import Outcome, Verdict
from trackside.environment import inherited

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("example", "fault", "rules"),
    [
        pytest.param("boosting", "none", set(), id="boosting-healthy"),
        pytest.param("boosting", "memorise", {"overfit"}, id="boosting-memorise"),
        pytest.param("keras", "none", set(), id="keras-healthy"),
        pytest.param("keras", "vanishing", {"vanishing-gradient", "loss-not-decreasing"}, id="keras-vanishing"),
    ],
)
def test_the_planted_mistake_is_named_and_nothing_else(
    tmp_path: Path, example: str, fault: str, rules: set[str]
) -> None:
    script = EXAMPLES / example / "train.py"
    assert "trackside" not in script.read_text("utf-8").partition('"""\n\n')[2], "the script knows nothing of us"
    command = [sys.executable, "-m", "trackside", "run", "--", sys.executable, str(script), "--fault", fault]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**inherited(), "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert "% of the test" in done.stdout, done.stdout + done.stderr
    (verdicts,) = (tmp_path / ".trackside" / "runs").glob("*/rule-output/verdicts.jsonl")
    found = [Verdict.from_json(line) for line in verdicts.read_text("utf-8").splitlines()]
    issues = {one.rule_id for one in found if one.outcome is Outcome.ISSUE_FOUND}
    assert issues <= rules, json.dumps([one.message for one in found])
    assert bool(issues) is bool(rules)
