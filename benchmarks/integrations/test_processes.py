"""The callbacks in scripts of their own: two processes that stop together, and a training under `trackside run`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.integrations.broken_trainer import MOST_STEPS

SCRIPT = Path(__file__).with_name("broken_trainer.py")
HANGS_SECONDS = 400.0  # a stop takes seconds; processes that wait for one another never end


def steps_of(command: list[str], folder: Path) -> tuple[int, dict[int, int], str]:
    """Run the command. Return its exit code, the last step by rank, and its stderr."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False)
    found = re.findall(r"rank (\d) ended at step (\d+)", done.stdout)
    return done.returncode, {int(rank): int(step) for rank, step in found}, done.stderr


@pytest.mark.parametrize("trainer", ["hf", "lightning"])
def test_two_processes_stop_at_the_same_step(trainer: str, tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29611"]
    code, steps, errors = steps_of([*launcher, str(SCRIPT), trainer, "2"], tmp_path)
    assert code == 0, errors
    assert set(steps) == {0, 1}
    assert steps[0] == steps[1] < MOST_STEPS
    (run,) = (tmp_path / ".trackside" / "runs").iterdir()
    workers = {path.name for path in (run / "debug-output").rglob("*worker_1*")}
    assert workers, "the second process is captured, too"
    assert errors.count("CRITICAL") >= 1


@pytest.mark.parametrize("trainer", ["hf", "lightning"])
def test_under_trackside_run_the_callback_only_stops(trainer: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trackside", "run", "--", sys.executable, str(SCRIPT), trainer, "1"]
    code, steps, errors = steps_of(command, tmp_path)
    assert code == 1, errors  # a critical issue; the training itself ended with 0
    assert list(steps) == [0], errors
    assert steps[0] < MOST_STEPS
    assert len(list((tmp_path / ".trackside" / "runs").iterdir())) == 1
    assert re.search(r"✖ (CRITICAL  )?\S+", errors)  # a card, or the line of one that began as a warning
