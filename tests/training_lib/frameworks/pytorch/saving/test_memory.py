"""A step whose copy would not fit into the free memory: it is lost as a whole, and the next is tried."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from trackside.capture.ground.free_memory import MemoryRoom
from trackside.capture.ground.guard import Guard
from trackside.capture.steps.spill import is_spilled
from trackside.capture.steps.step_engine import StepEngine
from trackside.capture.steps.step_tensors import StepTensors
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.frameworks.pytorch.saving import tensor_saver
from trackside.frameworks.pytorch.saving.device_copies import DeviceCopies
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver
from trackside.trial.trial import open_trial

NAMED = [("layer.weight", torch.ones(16 << 20)), ("layer.bias", torch.ones(4))]  # 64 MiB
SMALL = [("layer.weight", torch.ones(16)), ("layer.bias", torch.ones(4))]
Named = list[tuple[str, torch.Tensor]]


def one_by_one(saver: TensorSaver, named: Named) -> None:
    for name, tensor in named:
        saver.save(name, tensor)


def trained(save: Callable[[TensorSaver, Named], None], free: list[int | None], named: Named) -> list[StepTensors]:
    """The steps that are handed on, one for each amount of free memory."""
    taken: list[StepTensors] = []
    engine = StepEngine(
        CaptureRequest((CollectionRequest("weights", Schedule(1)), CollectionRequest("biases", Schedule(1))))
    )
    engine.connect(type("Taken", (), {"submit": lambda _, step: taken.append(step) or True})())
    left = iter(free)
    saver = TensorSaver(engine, Guard(), shards={}, room=MemoryRoom(lambda: next(left)))
    saver.training_began()
    for _ in free:
        save(saver, named)
        engine.end_step()
    return taken


@pytest.mark.parametrize("save", [TensorSaver.save_all, one_by_one])
@pytest.mark.parametrize(
    ("free", "named", "saved"),
    [
        pytest.param([1 << 40, 1 << 28, 1 << 40], NAMED, [True, False, True], id="one step lacks the memory"),
        pytest.param([0, 0], NAMED, [False, False], id="there never is any"),
        pytest.param([None, None], NAMED, [True, True], id="nobody knows"),
        pytest.param([0, 0], SMALL, [True, True], id="small tensors need no look"),
    ],
)
def test_a_step_without_memory_is_lost_as_a_whole(
    save: Callable[[TensorSaver, Named], None], free: list[int | None], named: Named, saved: list[bool]
) -> None:
    steps = trained(save, free, named)
    assert [step.step for step in steps] == list(range(len(free)))
    for step, is_saved in zip(steps, saved, strict=True):
        assert dict(step.tensors).keys() == ({name for name, _ in named} if is_saved else set())
        assert ("of memory are free" in step.lost) != is_saved


# Each save has 128 MiB of weights and as much of gradients. 448 MiB are free; 256 of them are left to the training.
PROCESS = """
import resource, sys
from pathlib import Path
import torch
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter

torch.set_num_threads(1)
request = CaptureRequest(
    tuple(CollectionRequest(name, Schedule(2, start_step=2)) for name in ("weights", "gradients")),
    statistics=StatisticsRequest(enabled=False), memory_mb=int(sys.argv[2]),
)
adapter = PyTorchAdapter(CaptureEnvironment(sys.argv[1], request.to_json(), 0, 1))
adapter.install()
model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048, bias=False) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(4, 2048)
for step in range(6):
    if step == 2:
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        used = 1024 * int(status["VmData"].split()[0])
        resource.setrlimit(resource.RLIMIT_DATA, (used + (448 << 20), -1))
    optimizer.zero_grad(set_to_none=False)
    model(inputs).square().mean().backward()
    optimizer.step()
adapter.close(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
@pytest.mark.parametrize(
    ("memory_mb", "saved"),
    [pytest.param(0, [], id="no limit: each save is lost"), pytest.param(32, [2, 4], id="32 MiB: each is stored")],
)
def test_a_process_without_the_memory_for_a_save(memory_mb: int, saved: list[int], tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", PROCESS, str(tmp_path / "run"), str(memory_mb)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ("of memory are free" in ended.stderr) == (not saved)
    assert "Exception ignored" not in ended.stderr
    trial = open_trial(str(tmp_path / "run"))
    assert list(trial.steps()) == saved
    weights = [name for name in trial.tensor_names(collection="weights") if "gradient" not in name]
    assert len(weights) == 8 * bool(saved)
    for name in weights:
        assert [trial.tensor(name).value(step).shape for step in saved] == [(2048, 2048)] * len(saved)


@pytest.mark.parametrize(("memory_mb", "is_sent"), [(0, True), (128, True), (32, False)])
def test_training_waits_for_a_device_only_where_a_step_spills(
    memory_mb: int, is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_saver, "DeviceCopies", lambda: DeviceCopies(takes=lambda _: True))
    engine = StepEngine(CaptureRequest((CollectionRequest("weights", Schedule(1)),), memory_mb=memory_mb))
    saver = TensorSaver(engine, Guard(), shards={})
    saver.training_began()
    ((_, tensor), _) = NAMED
    assert saver.is_sent(tensor) is is_sent
    if not is_sent:
        saver.save("layer.weight", tensor)
        array = engine.open_step.tensors()["layer.weight"]
        assert is_spilled(array)
        assert np.array_equal(array, tensor.numpy())
