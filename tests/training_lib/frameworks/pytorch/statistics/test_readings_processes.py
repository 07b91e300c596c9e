"""What the always-on statistics keep when their process ends: all of it, or all but the last moment of a SIGKILL."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np
import pytest

import trackside
from tests.patience import wait_until
from tests.warm_python import WarmProcess, WarmPython
from trackside.environment import inherited

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
    print(step, flush=True)
    if step == 5 and "fork" in sys.argv:
        if os.fork() == 0:
            for _ in range(50):
                optimizer.step()
            os._exit(0)
        os.wait()
    time.sleep(0.01)
"""


Started = Callable[..., AbstractContextManager[tuple[WarmProcess, TextIO]]]


@pytest.fixture
def started(tmp_path: Path, warm_python: WarmPython) -> Started:
    """`with started("40") as (process, said):` trains so many steps, captured into the folder `run`."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)

    @contextmanager
    def start(*arguments: str) -> Iterator[tuple[WarmProcess, TextIO]]:
        reads, writes = os.pipe()
        environment = {**inherited(), "TRACKSIDE_RUN": str(tmp_path / "run")}
        with os.fdopen(reads) as said, warm_python.start(script, *arguments, env=environment, stdout=writes) as process:
            os.close(writes)
            yield process, said

    return start


def read_steps(said: TextIO, *, count: int) -> list[int]:
    """The next steps that the script prints."""
    return [int(said.readline()) for _ in range(count)]


def recorded_steps(run: Path) -> list[int]:
    columns = trackside.open_trial(str(run)).columns("CrossEntropyLoss_output_0", "mean", last_step=10**9, mode="TRAIN")
    return [step for column in columns for step in np.asarray(column.steps).tolist()]


def test_a_sigkill_costs_at_most_the_last_moment(tmp_path: Path, started: Started) -> None:
    """What has been trained is recorded while training goes on; test_statistics_log.py says after which time."""
    run = tmp_path / "run"
    with started("100000") as (process, said):
        seen = read_steps(said, count=20)
        wait_until(lambda: run.exists() and seen[-1] in recorded_steps(run))
        process.kill()
        process.wait()
    steps = recorded_steps(run)
    assert steps == list(range(len(steps)))


def test_a_sigterm_costs_nothing(tmp_path: Path, started: Started) -> None:
    with started("100000") as (process, said):
        read_steps(said, count=20)
        process.send_signal(signal.SIGTERM)
        last = [line for line in said if line.endswith("\n")][-1:]
        assert process.wait() == -signal.SIGTERM
    steps = recorded_steps(tmp_path / "run")
    assert steps == list(range(len(steps)))
    assert steps[-1] >= (int(last[0]) if last else 19)


@pytest.mark.parametrize("arguments", [pytest.param(["40"], id="plain"), pytest.param(["40", "fork"], id="fork")])
def test_a_normal_end_keeps_every_step_and_a_child_adds_none(
    arguments: list[str], tmp_path: Path, started: Started
) -> None:
    with started(*arguments) as (process, said):
        assert read_steps(said, count=40) == list(range(40))
        assert process.wait() == 0
    assert recorded_steps(tmp_path / "run") == list(range(40))
    (log,) = (tmp_path / "run" / "statistics" / "worker_0").iterdir()
    assert log.suffix == ".tss"
