"""The main job: what `make demo` runs exits 0, shows every hop of both twins, and fits into 80 columns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("local-account")

EFFECTS = [
    "stacks deployed",
    "training job runs",
    "tensors reach S3",
    "rule container starts",
    "a rule finds the fault",
    "event is on the bus",
    "EventBridge matches it",
    "owner has the message",
    "metric is in CloudWatch",
    "training is stopped",
    "rule container is done",
    "training is complete",
    "rules call it clean",
    "nobody was disturbed",
]


def test_the_demo_shows_every_hop() -> None:
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}  # noqa: TID251 - a child needs its parent's
    result = subprocess.run(  # no time limit: the demo has one for each hop
        [sys.executable, "examples/demo/demo.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    missing = [hop for hop in EFFECTS if f"✓ {hop}" not in result.stdout]
    assert not missing, result.stdout
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()) <= 80
    shown = re.search(r"findings (\S+)", result.stdout)
    assert shown is not None
    findings = [str(Path(sys.executable).with_name("trackside")), "findings", shown[1]]
    more = subprocess.run(findings, cwd=ROOT, capture_output=True, text=True, check=False)
    assert more.returncode == 0, more.stderr
    assert "vanishing-gradient" in more.stdout
