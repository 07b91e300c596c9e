"""`trackside run --rescue`: a training that a broken batch would ruin goes on, is not stopped, and the run tells it.

With `restart` its script is started again from a checkpoint of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from trackside.environment import inherited

_SCRIPT = Path(__file__).parents[2] / "examples" / "rescue" / "train.py"
_COMMAND = ("--", sys.executable, str(_SCRIPT))


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trackside", *arguments],
        cwd=folder,
        env={**inherited(), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_run_is_rescued_and_tells_it(tmp_path: Path) -> None:
    ended = _run(tmp_path, "run", "--rescue", "--on-issue", "stop", "--fail-on", "never", "--out", "saved", *_COMMAND)
    assert ended.returncode == 0, ended.stderr
    assert "epoch 12: loss 0." in ended.stdout
    assert "Went back from step 1" in ended.stderr  # between 1,400 and 1,600; quick steps are not looked at one by one
    assert "Rescued: went back once" in ended.stderr
    found = json.loads(_run(tmp_path, "findings", "saved", "--format", "json").stdout)
    assert found["rescued"] is True
    assert [one["outcome"] for one in found["rescue"]["tries"]] == ["rescued"]
    assert _run(tmp_path, "report", "saved", "--output", "report.html").returncode == 0
    page = (tmp_path / "report.html").read_text()
    assert 'id="rescue"' in page
    assert "the weights hold values that are not finite" in page


def test_without_the_option_nothing_goes_back(tmp_path: Path) -> None:
    ended = _run(tmp_path, "run", "--fail-on", "never", "--out", "lost", *_COMMAND)
    assert "epoch 12: loss nan" in ended.stdout
    assert not (tmp_path / "lost" / "rescue").exists()


def test_a_script_is_started_again_from_its_good_checkpoint(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    options = ("--rescue", "restart", "--on-issue", "stop", "--fail-on", "never", "--out", "saved")
    ended = _run(tmp_path, "run", *options, *_COMMAND, str(checkpoints))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("goes on from epoch_07.pt") == 1
    assert "epoch 12: loss 0." in ended.stdout
    assert "Rescued: went back once" in ended.stderr
    found = json.loads(_run(tmp_path, "findings", "saved", "--format", "json").stdout)
    assert found["rescued"] is True
    (one,) = found["rescue"]["tries"]
    assert (one["outcome"], one["left_out"]) == ("rescued", True)
    assert one["checkpoint"] == str(checkpoints / "epoch_07.pt")
    assert all(Path(aside).exists() for aside in one["set_aside"])
    assert len(list(checkpoints.glob("epoch_*.pt"))) == 12
    assert not list(checkpoints.rglob("*-good"))
    assert _run(tmp_path, "report", "saved", "--output", "report.html").returncode == 0
    assert str(checkpoints / "epoch_07.pt") in (tmp_path / "report.html").read_text()
