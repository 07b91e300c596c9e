"""The share of a step that watching takes, as the run records it, against the truth.

Time here is calls of Python functions, so that no clock and no other process has a part in it: all of them are the
step's, and those of functions of ours are our cost. The meter's own are not counted: by a clock they are a twentieth of
a measured step, and here they would be half of it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trackside
from trackside.contracts.run.recorded_names import OVERHEAD

STEPS = 400
FIRST = 150  # before, tiers are thinned step by step
COUNTS = """
import sys, threading, time

calls = ours = 0
main = threading.get_ident()
time.perf_counter = time.process_time = lambda: float(calls)
time.thread_time = lambda: float(ours) if threading.get_ident() == main else 0.0

import torch, trackside
from pathlib import Path
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.frameworks.shared import speed_facts_file

speed_facts_file.FIRST_FLUSH_SECONDS = 1e9  # no steps on which modules are timed: they come by the clock
interval, budget = int(sys.argv[2]), float(sys.argv[3])
collections = (CollectionRequest("weights", Schedule(interval)),) if interval else ()
request = CaptureRequest(collections, statistics=StatisticsRequest(budget=budget))
capture = PyTorchAdapter(CaptureEnvironment(sys.argv[1], request.to_json(), 0, 1))
capture.install()
folder = str(Path(trackside.__file__).parent)

def count(frame, event, _):
    global calls, ours
    if event == "call" and not frame.f_code.co_filename.endswith("budget.py"):
        calls += 1
        ours += frame.f_code.co_filename.startswith(folder)

model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(6)])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
torch.manual_seed(0)
batches = torch.randn(16, 2, 4)
sys.setprofile(count)
for step in range(int(sys.argv[4])):
    before = calls, ours
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(batches[step % 16]), torch.tensor([0, 1])).backward()
    optimizer.step()
    print(calls - before[0], ours - before[1])
sys.setprofile(None)
capture.uninstall()
"""


@pytest.mark.parametrize(
    ("interval", "budget"),
    [
        pytest.param(0, 1.0, id="everything-at-every-step"),
        pytest.param(0, 0.02, id="thinned"),
    ],
)
def test_the_recorded_share_is_the_true_one(interval: int, budget: float, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-c", COUNTS, str(run), str(interval), str(budget), str(STEPS)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    steps = np.array([list(map(int, line.split())) for line in answer.stdout.splitlines()])
    assert len(steps) == STEPS
    calls, ours = steps[FIRST:].sum(axis=0)
    (column,) = trackside.open_trial(str(run)).columns(OVERHEAD, "mean", last_step=STEPS, mode="TRAIN")
    recorded = float(column.values[column.steps >= FIRST].mean())
    truth = ours / (calls - ours)
    print(f"recorded {recorded:.3f}, true {truth:.3f}")
    # The calls of wrappers before and after what is measured are missing: by a clock they are next to nothing.
    assert recorded == pytest.approx(truth, rel=0.3)
