"""The sampler of the machine in a training process: whether it is started, and its files in the run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.patience import wait_until
from tests.training_lib.profiling.samples import samples_in
from trackside.capture.session import Rank, RunSession
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.frameworks.shared.adapter import machine_parts
from trackside.storage.local import LocalStore


def environment_of(folder: Path, *, interval: int = 100, rank: int = 0, **fields: Any) -> CaptureEnvironment:
    request = CaptureRequest(machine_interval_ms=interval).to_json()
    return CaptureEnvironment(run_uri=str(folder), capture_request=request, rank=rank, world_size=4, **fields)


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        pytest.param({}, 1, id="asked-for"),
        pytest.param({"local_rank": 0, "rank": 2}, 1, id="first-of-the-second-machine"),
        pytest.param({"interval": 0}, 0, id="not-asked-for"),
        pytest.param({"rank": 1}, 0, id="another-rank"),
        pytest.param({"local_rank": 1, "rank": 3}, 0, id="second-of-the-second-machine"),
        pytest.param({"ended_by": "trackside-run"}, 0, id="trackside-run-samples"),
    ],
)
def test_one_process_of_a_machine_samples_it(tmp_path: Path, fields: dict[str, Any], count: int) -> None:
    session = RunSession(environment_of(tmp_path, **fields))
    assert len(machine_parts(session, Rank(session.environment.rank, 4))) == count
    assert not list(tmp_path.iterdir())


def test_a_training_has_its_machine_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, beside = tmp_path / "run", tmp_path / "beside"
    beside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(beside))
    adapter = PyTorchAdapter(environment_of(run, machine="algo-3"))
    adapter.install()
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    profiles = LocalStore(RunLocation(str(run)).profiles)

    def is_sampled_after_a_step() -> bool:
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        return any(beside.rglob("*.open"))

    wait_until(is_sampled_after_a_step)
    adapter.uninstall()
    assert {sample.node for sample in samples_in(profiles)} == {"algo-3"}
    assert not list(beside.glob("trackside-*"))
