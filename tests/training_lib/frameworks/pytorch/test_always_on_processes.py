"""What the always-on statistics keep when their process ends: all of it, or all but the last moment of a SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trackside

SCRIPT = """
import os, sys, time
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.randn(3, 4)), torch.tensor([0, 1, 0])).backward()
    optimizer.step()
    print(step, time.time(), flush=True)
    if step == 5 and "fork" in sys.argv:
        if os.fork() == 0:
            for _ in range(50):
                optimizer.step()
            os._exit(0)
        os.wait()
    time.sleep(0.01)
"""
SLACK_SECONDS = 3.0  # a second by promise; the rest is for a machine on which many tests run at once


def started(run: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TRACKSIDE_RUN": str(run)}  # noqa: TID251 - what a process is started with
    command = [sys.executable, "-c", SCRIPT, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def read_until(process: subprocess.Popen[str], *, seconds: float) -> list[tuple[int, float]]:
    """(step, time) as the script prints them, until it has trained so long."""
    assert process.stdout is not None
    steps: list[tuple[int, float]] = []
    for line in process.stdout:
        step, time = line.split()
        steps.append((int(step), float(time)))
        if steps[-1][1] - steps[0][1] > seconds:
            break
    return steps


def recorded_steps(run: Path) -> list[int]:
    trial = trackside.open_trial(str(run))
    (column,) = trial.columns("CrossEntropyLoss_output_0", "mean", last_step=10**9, mode="TRAIN")
    return np.asarray(column.steps).tolist()


def test_a_sigkill_costs_at_most_the_last_moment(tmp_path: Path) -> None:
    with started(tmp_path / "run", "100000") as process:
        seen = read_until(process, seconds=5.0)
        process.kill()
        assert process.stdout is not None
        seen += [(int(line.split()[0]), float(line.split()[1])) for line in process.stdout if line.endswith("\n")]
    steps = recorded_steps(tmp_path / "run")
    assert steps == list(range(len(steps)))
    assert seen[-1][1] - dict(seen)[steps[-1]] < SLACK_SECONDS


def test_a_sigterm_costs_nothing(tmp_path: Path) -> None:
    with started(tmp_path / "run", "100000") as process:
        seen = read_until(process, seconds=0.5)
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        last = [line for line in process.stdout if line.endswith("\n")][-1:]
    assert process.returncode == -signal.SIGTERM
    steps = recorded_steps(tmp_path / "run")
    assert steps == list(range(len(steps)))
    assert steps[-1] >= (int(last[0].split()[0]) if last else seen[-1][0])


@pytest.mark.parametrize("arguments", [pytest.param(["40"], id="plain"), pytest.param(["40", "fork"], id="fork")])
def test_a_normal_end_keeps_every_step_and_a_child_adds_none(arguments: list[str], tmp_path: Path) -> None:
    with started(tmp_path / "run", *arguments) as process:
        read_until(process, seconds=60.0)
    assert process.returncode == 0
    assert recorded_steps(tmp_path / "run") == list(range(40))
    (log,) = (tmp_path / "run" / "statistics" / "worker_0").iterdir()
    assert log.suffix == ".tss"
