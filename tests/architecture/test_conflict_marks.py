"""No file of the repository holds the marks of a conflict that a merge left."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_file_holds_the_marks_of_a_conflict() -> None:
    command = ["git", "grep", "-nIE", "^(<{7}|>{7}) ", "--", ":!tests/architecture/test_conflict_marks.py"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (1, "")
