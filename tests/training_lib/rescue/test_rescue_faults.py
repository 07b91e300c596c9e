"""Faults of the rescue itself: the training goes on as it would have, or ends as it would have."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm_python import WarmPython
from trackside.contracts.run.rescue import RescueRecord, RescueState
from trackside.environment import inherited
from trackside.runs.recorded_run import read_run

_SCRIPT = """
import math, os, sys
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
BEFORE
for step in range(160):
    rows = torch.randn(16, 8)
    if step == BROKEN:
        rows = ROWS
    loss = net(rows).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if step == BROKEN:
        WHILE
    optimizer.step()
print(sum(p.double().sum().item() for p in net.parameters()))
"""
_NO_MEMORY = """
def empty_like(*_args, **_settings):
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
torch.empty_like = empty_like  # SGD calls it not
"""
_SCHEDULER = """
class Unkeepable(torch.optim.lr_scheduler.StepLR):
    def state_dict(self):
        raise RuntimeError("this scheduler cannot be kept")
scheduler = Unkeepable(optimizer, 10**6)
"""
_KILL = "torch.set_rng_state = lambda _: os.kill(os.getpid(), 9)"  # the last of what is put back


def _trained(
    python: WarmPython,
    folder: Path,
    *,
    before: str = "",
    broken: int = -1,
    at_fault: str = "pass",
    broken_rows: str = "rows * math.nan",
    is_rescued: bool = True,
) -> subprocess.CompletedProcess[str]:
    text = _SCRIPT.replace("BEFORE", before).replace("BROKEN", str(broken))
    script = folder / "train.py"
    script.write_text(text.replace("WHILE", at_fault).replace("ROWS", broken_rows))
    variables = {"TRACKSIDE_RUN": str(folder / "run"), "TRACKSIDE_RESCUE": "1"} if is_rescued else {}
    return python.run(script, env={**inherited(), **variables})


def _record(folder: Path) -> RescueRecord:
    return RescueRecord.from_json((folder / "run" / "rescue" / "worker_0.json").read_bytes())


@pytest.mark.parametrize(
    ("before", "words"),
    [(_NO_MEMORY, "no moment can be kept"), (_SCHEDULER, "switched off")],
    ids=["no memory for a copy", "a part that cannot be kept"],
)
def test_without_a_moment_there_is_no_rescue_and_the_training_is_the_same(
    before: str, words: str, warm_python: WarmPython, tmp_path: Path
) -> None:
    plain, watched = tmp_path / "plain", tmp_path / "watched"
    plain.mkdir()
    watched.mkdir()
    first = _trained(warm_python, plain, before=before, is_rescued=False)
    second = _trained(warm_python, watched, before=before)
    assert (second.returncode, second.stdout) == (first.returncode, first.stdout), second.stderr
    assert first.returncode == 0, first.stderr
    record = _record(watched)
    assert record.state is RescueState.OFF
    assert words in record.reason


def test_a_kill_within_a_rescue_leaves_a_run_that_can_be_read(warm_python: WarmPython, tmp_path: Path) -> None:
    # Torn weights: nothing is left out, so that the random states are put back, too.
    tear = "handle = optimizer.register_step_post_hook(lambda *_: net[0].weight.data.fill_(math.nan))"
    ended = _trained(warm_python, tmp_path, broken=120, broken_rows="rows", at_fault=f"{tear}; {_KILL}")
    assert ended.returncode == -signal.SIGKILL
    found = read_run(str(tmp_path / "run"))
    assert found.rescue is None  # it is recorded once it is done
    marks = json.loads((tmp_path / "run" / "watermarks" / "worker_0.json").read_text())
    assert marks


def test_without_it_nothing_of_it_is_imported(tmp_path: Path) -> None:
    script = "import sys, torch; print([name for name in sys.modules if '.rescue' in name and 'pytorch' in name])"
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**inherited(), "TRACKSIDE_RUN": str(tmp_path / "run")},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert ended.stdout.strip() == "[]"
