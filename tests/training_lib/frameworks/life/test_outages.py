"""Storage that is away for minutes, or full in mid-run: nothing piles up, steps are lost whole and told, runs go on."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trackside
from tests.patience import HANGS_SECONDS
from trackside.capture.ground.guard import Guard
from trackside.capture.steps.step_engine import StepEngine
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.run_files import RunFiles
from trackside.capture.writing.writer import Writer
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.contracts.errors import StorageError
from trackside.storage.local import LocalStore

STEP_SECONDS = 0.5
OUTAGE = range(120, 720)  # steps: five minutes
STEPS = 900


class Clock:
    """Time of an hour's training that takes a moment."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Away(LocalStore):
    """A folder that answers as S3 does: every request fails while `is_down`. Files cannot grow there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_down = False
        self.attempts = 0

    def _answer(self) -> None:
        if self.is_down:
            self.attempts += 1
            raise StorageError("s3://bucket/run does not answer")

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self._answer()
        super().put(key, data)

    def append(self, key: str, data: bytes | bytearray | memoryview) -> int:
        self._answer()
        return super().append(key, data)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self._answer()
        return super().get(key, start=start, length=length)

    def exists(self, key: str) -> bool:
        self._answer()
        return super().exists(key)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self._answer()
        return super().list(prefix, start_after=start_after)


class Destination:
    """The writer, and the most that has waited in it."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.were_taken: list[bool] = []

    def submit(self, step: StepTensors) -> bool:
        self.were_taken.append(self._writer.submit(step))
        return self.were_taken[-1]


def test_five_minutes_without_storage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The clock is ours. Steps do not pile up: while storage is away they are dropped, and tried again now and then."""
    clock, store = Clock(), Away(tmp_path / "debug-output")
    request = CaptureRequest((CollectionRequest("weights", Schedule(1)),))
    files = RunFiles(lambda: store, request=request, worker="worker_0", num_workers=1, ends_run=True, clock=clock)
    writer = Writer(files, guard=Guard(), monotonic=clock)
    destination = Destination(writer)
    engine = StepEngine(request, clock=clock, monotonic=clock)
    engine.connect(destination)
    writer.start()
    with caplog.at_level(logging.WARNING):
        for step in range(STEPS):
            store.is_down = step in OUTAGE
            for name in ("Net_a.weight", "Net_b.weight"):
                engine.open_step.add(name, np.full(4, step, np.float32))
            engine.end_step()
            assert writer.flush(HANGS_SECONDS), "every step is stored or lost before the next: nothing waits"
            clock.now += STEP_SECONDS
        assert writer.close(HANGS_SECONDS)
    assert all(destination.were_taken), "training never waited, and the queue was never full"
    outage, recovered, total = (record.getMessage() for record in caplog.records)
    assert "could not be saved" in outage
    assert "saving works again" in recovered

    trial = trackside.open_trial(str(tmp_path))
    report = trial.lost_steps()["worker_0"]
    lost = {step.step for step in report.lost}
    assert lost | set(trial.steps()) == set(range(STEPS))
    assert not lost & set(trial.steps())
    assert set(OUTAGE) <= lost
    later = [step for step in lost if step >= OUTAGE.stop]
    assert len(later) <= 60 / STEP_SECONDS, "tried again every minute at the latest"
    assert max(later, default=0) < STEPS - 1
    assert {step.why for step in report.lost} == {"StorageError: s3://bucket/run does not answer"}
    assert f"{len(lost)} of {STEPS} steps" in total
    assert (report.saved_steps, report.lost_steps) == (STEPS - len(lost), len(lost))
    assert store.attempts < 60, "after 1, 2, 4, ... 60 seconds, not at each of 600 steps"
    for name in ("Net_a.weight", "Net_b.weight"):
        series = trial.tensor(name)
        assert series.steps == trial.steps(), "each step whole"
        assert [float(value[0]) for value in series.values] == list(trial.steps())
    assert trial.has_ended


# A limit of the size of files, as a full disk in the middle of a write: some bytes go in, then none.

FILLS = """
import hashlib, sys, time
import resource
import torch
from torch import nn

if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Linear(45, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    optimizer.zero_grad()
    model(torch.randn(4, 45)).pow(2).mean().backward()
    optimizer.step()
    if len(sys.argv) > 1:
        time.sleep(0.05)  # saving is tried again a second after it has failed
print(hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest())
"""
REQUEST = '{"collections": [{"name": "weights", "save_interval": 1}, {"name": "gradients", "save_interval": 1}]}'


def test_a_disk_that_is_full_within_a_write(start_script: Callable[..., Any], tmp_path: Path) -> None:
    """The kernel takes part of a write and refuses the rest. A step has 0.6 kB, and several share a file."""
    script = tmp_path / "fills.py"
    script.write_text(FILLS)
    bare = start_script(script)
    assert bare.returncode == 0, bare.stderr
    for limit in (200, 6_001):
        run = tmp_path / str(limit)
        done = start_script(script, str(limit), TRACKSIDE_RUN=str(run), TRACKSIDE_CAPTURE_REQUEST=REQUEST)
        assert (done.returncode, done.stdout) == (0, bare.stdout), done.stderr
        assert "Traceback" not in done.stderr
        (total,) = [line for line in done.lines if " steps could not be saved" in line]
        lost, steps = map(int, re.findall(r"(\d+) of (\d+) steps", total)[0])
        assert steps == 30
        if limit == 200:
            assert lost == 30, "no step fits"
            assert not [*run.rglob("index/*/*.json")]
            continue
        assert_only_whole_steps(run, lost)


def assert_only_whole_steps(run: Path, lost: int) -> None:
    trial = trackside.open_trial(str(run))
    report = trial.lost_steps()["worker_0"]
    assert 0 < lost == report.lost_steps < 30
    assert {step.step for step in report.lost} | set(trial.steps()) == set(range(30))
    assert len(trial.steps()) == 30 - lost
    weight, gradient = trial.tensor("Linear_weight"), trial.tensor("gradient/Linear_weight")
    assert weight.steps == gradient.steps == trial.steps()
    for place, step in enumerate(weight.steps[:-1]):
        if weight.steps[place + 1] == step + 1:  # what is read is what was trained: SGD with a rate of 0.01
            expected = weight.values[place] - np.float32(0.01) * gradient.values[place]
            np.testing.assert_allclose(weight.values[place + 1], expected, rtol=1e-6)
