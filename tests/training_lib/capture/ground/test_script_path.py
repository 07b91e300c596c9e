"""The path of the started script, which facts name after the script's end, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from trackside.environment import inherited

SCRIPT = """
import atexit, sys
from trackside.capture.ground import script_lines

atexit.register(lambda: print(script_lines.script_path(), "__file__" in vars(sys.modules["__main__"])))
"""


def test_it_is_known_when_the_script_has_ended(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=inherited(), check=True)
    assert done.stdout.split()[0] == str(script)


def test_a_program_without_a_file_has_none(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=inherited(), check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["False"]
