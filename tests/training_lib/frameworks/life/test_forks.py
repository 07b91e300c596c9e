"""A training that forks while one of its steps is being written: the child trains on unseen, and nothing hangs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import trackside

FORKS = """
import os, sys, threading, warnings
import torch
from torch import nn
from trackside.storage.local import LocalStore

entered, may_go_on = threading.Event(), threading.Event()

def held(write):
    def wait_and_write(self, key, data):
        if key.startswith(("events/", "index/")):
            entered.set()
            assert may_go_on.wait(600)
        return write(self, key, data)
    return wait_and_write

for name in ("put", "put_parts", "append"):
    setattr(LocalStore, name, held(getattr(LocalStore, name)))

torch.set_num_threads(1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def step():
    optimizer.zero_grad()
    model(torch.ones(2, 4)).pow(2).mean().backward()
    optimizer.step()

for _ in range(3):
    step()
assert entered.wait(600), "the writer is in the middle of a step"
warnings.simplefilter("ignore")  # what Python says of forks beside threads
child = os.fork()
if child == 0:
    for _ in range(20):
        step()
    sys.exit(3)
status = os.waitpid(child, 0)[1]
may_go_on.set()
step()
print("child", os.waitstatus_to_exitcode(status))
"""


def test_a_fork_while_a_step_is_written(start_script: Callable[..., Any], tmp_path: Path) -> None:
    script, run = tmp_path / "forks.py", tmp_path / "run"
    script.write_text(FORKS)
    request = '{"collections": [{"name": "weights", "save_interval": 1}]}'
    done = start_script(script, TRACKSIDE_RUN=str(run), TRACKSIDE_CAPTURE_REQUEST=request)
    assert (done.returncode, done.stdout, done.lines) == (0, "child 3\n", []), done.stderr
    trial = trackside.open_trial(str(run))
    assert trial.steps() == (0, 1, 2, 3)
    assert trial.workers == ("worker_0",)
    assert trial.has_ended
