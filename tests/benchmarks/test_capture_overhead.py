"""The benchmarks of capture run to their end: a small trial of each. What they measure here means nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS

REPOSITORY = Path(__file__).parents[2]


def table(printed: str) -> list[list[str]]:
    """Its rows."""
    lines = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("|")]
    return [[column.strip() for column in line] for line in lines[2:]]


def ratio(text: str) -> float:
    return float(text.split(maxsplit=1)[0])


@pytest.mark.skipif(sys.platform != "linux", reason="processor time of others is read from /proc")
def test_participants_take_turns() -> None:
    order = ("tiny", "--kinds", "on", "loss@1", "--rounds", "2", "--steps", "20")
    command = [sys.executable, "-m", "benchmarks.turns", *order]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = table(done.stdout)
    assert [row[0] for row in rows] == ["bare", "bare again", "on", "loss@1", "loss@1, raw write"]
    assert all(ratio(row[2]) > 0.01 for row in rows)


def test_blocks_take_turns_and_a_planted_cost_has_a_row() -> None:
    order = ("tiny", "--kinds", "idle", "--rounds", "2", "--steps", "20")
    command = [sys.executable, "-m", "benchmarks.blocks", *order]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (row,) = table(done.stdout)
    assert row[0] == "idle"
    assert all(re.fullmatch(r"[+-][\d.]+ % \([+-][\d.]+ to [+-][\d.]+\)", row[place]) for place in (2, 4, 5)), row
