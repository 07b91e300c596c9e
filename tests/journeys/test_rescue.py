"""`trackside run --rescue`: a training that a broken batch would ruin goes on, is not stopped, and the run tells it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from trackside.environment import inherited

_SCRIPT = """
import math, torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(1500):
    rows = torch.randn(32, 8)
    labels = rows.sum(dim=1, keepdim=True).tanh()
    if step == 700:
        rows = rows * math.nan
    loss = nn.functional.mse_loss(net(rows), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"final {loss.item():.3f}")
"""


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
    (tmp_path / "train.py").write_text(_SCRIPT)
    command = ("--", sys.executable, "train.py")
    ended = _run(tmp_path, "run", "--rescue", "--on-issue", "stop", "--fail-on", "never", "--out", "saved", *command)
    assert ended.returncode == 0, ended.stderr
    assert "final nan" not in ended.stdout
    assert "Went back from step 7" in ended.stderr  # quick steps are not looked at one by one
    assert "Rescued: went back once" in ended.stderr
    found = json.loads(_run(tmp_path, "findings", "saved", "--format", "json").stdout)
    assert found["rescued"] is True
    assert [one["outcome"] for one in found["rescue"]["tries"]] == ["rescued"]
    assert _run(tmp_path, "report", "saved", "--output", "report.html").returncode == 0
    page = (tmp_path / "report.html").read_text()
    assert 'id="rescue"' in page
    assert "the weights hold values that are not finite" in page


def test_without_the_option_nothing_goes_back(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_SCRIPT)
    ended = _run(tmp_path, "run", "--fail-on", "never", "--out", "lost", "--", sys.executable, "train.py")
    assert "final nan" in ended.stdout
    assert not (tmp_path / "lost" / "rescue").exists()
