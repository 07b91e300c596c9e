"""Storage that cannot keep up: training waits a moment once, memory stays bounded, whole steps are dropped and told."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import trackside
from tests.patience import HANGS_SECONDS
from trackside.capture.session import SessionOptions
from trackside.cli import main
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter
from trackside.storage.local import LocalStore

STEPS = 9
SIDE = 4096  # its weight has 64 MiB, a quarter of what may wait


class Hanging(LocalStore):
    """A folder that takes no bytes of a step until it is released."""

    released = threading.Event()

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self._hang(key)
        super().put(key, data)

    def put_parts(self, key: str, parts: Iterable[bytes | memoryview]) -> None:
        self._hang(key)
        super().put_parts(key, parts)

    def _hang(self, key: str) -> None:
        if key.startswith("events/"):
            assert self.released.wait(HANGS_SECONDS)


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_steps_are_dropped_whole_and_the_run_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    request = CaptureRequest((CollectionRequest("weights", Schedule(1)),), statistics=StatisticsRequest(enabled=False))
    capture = PyTorchAdapter(
        CaptureEnvironment(str(tmp_path), request.to_json(), 0, 1), options=SessionOptions(open_store=Hanging)
    )
    capture.install()
    model = nn.Linear(SIDE, SIDE, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    before, waited = memory_bytes(), []
    with caplog.at_level(logging.WARNING):
        for _ in range(STEPS):
            model.weight.grad = torch.zeros_like(model.weight)
            started = time.monotonic()
            optimizer.step()
            waited.append(time.monotonic() - started)
            optimizer.zero_grad()
        grown = memory_bytes() - before
        Hanging.released.set()
        capture.uninstall()
    assert grown < 7 * SIDE * SIDE * 4, "four steps wait, one is being written, one is training's own"
    of_a_step = max(waited[:3])  # for which there is room: what a step takes on this machine
    assert sum(seconds > 0.9 + of_a_step for seconds in waited) <= 1, "it waits once, not at every step"
    (why, total) = (record.getMessage() for record in caplog.records)
    assert "storage is slower than what is to be saved" in why
    trial = trackside.open_trial(str(tmp_path))
    report = trial.lost_steps()["worker_0"]
    lost = {step.step for step in report.lost}
    assert lost
    assert lost | set(trial.steps()) == set(range(STEPS))
    assert not lost & set(trial.steps())
    assert f"{len(lost)} of {STEPS} steps" in total
    assert all(len(series) == len(trial.steps()) for series in trial.tensors())
    doctor = CliRunner().invoke(main, ["doctor", str(tmp_path)])
    assert "storage is slower than what is to be saved" in " ".join(doctor.output.split())
    assert doctor.exit_code == 1
