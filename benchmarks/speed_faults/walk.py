"""Walk through one slow training from symptom to cause, and put the real output into docs/slow-training.md.

    python -m benchmarks.speed_faults.walk

Trains `no_workers` of `scripts` with its fault and without, as `train.py`, and asks what a user asks. The text between
the outputs stays; each block of a console is replaced by what its commands print now.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.speed_faults.catalogue import SCRIPTS
from trackside.environment import inherited

PAGE = Path(__file__).resolve().parents[2] / "docs" / "slow-training.md"
COLUMNS = 100
_BLOCK = re.compile(r"```console\n\$ (?P<command>[^\n]+)\n.*?```\n", re.DOTALL)  # one command each


def main() -> int:
    """Run the commands of the page in its order, in one folder."""
    with tempfile.TemporaryDirectory(prefix="walk-") as name:
        folder = Path(name)
        (folder / "train.py").write_text((SCRIPTS / "no_workers.py").read_text("utf-8"), "utf-8")
        text = _BLOCK.sub(lambda block: _answered(block["command"], folder), PAGE.read_text("utf-8"))
    PAGE.write_text(text, "utf-8")
    return 0


def _answered(command: str, folder: Path) -> str:
    return f"```console\n$ {command}\n{run(command, folder)}```\n"


def run(command: str, folder: Path) -> str:
    """Return the output of a command of the page, without empty lines at both ends, cut to the page's width."""
    words = shlex.split(command)
    program = [sys.executable, "-m", "trackside", *words[1:]] if words[0] == "trackside" else words
    environment = {**inherited(), "COLUMNS": str(COLUMNS), "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = [line[:COLUMNS].rstrip() for line in (done.stdout + done.stderr).strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
