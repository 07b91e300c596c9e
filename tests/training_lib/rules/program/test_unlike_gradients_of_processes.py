"""unlike-gradients, of two real processes that average their gradients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.training_lib.frameworks.pytorch.statistics.test_readings import opened
from trackside.contracts.run.recorded_names import LOCAL_GRADIENT
from trackside.contracts.verdict import Severity
from trackside.rules.program.unlike_gradients import UnlikeGradients
from trackside.trial.window import Window

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from trackside.contracts.capture_request import CaptureRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch import PyTorchAdapter

rank, folder = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)

def train(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    used = model if kind == "by-hand" else torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(rank + 1)
    for step in range(140):
        x = torch.randn(16, 6)
        loss = torch.nn.functional.mse_loss(used(x), x[:, :3])
        if rank:
            loss = {"not-scaled": 40, "no-gradient": 0}.get(kind, 1) * loss
            if kind == "breaks" and step >= 60:
                loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        if kind == "by-hand":
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= 2
        optimizer.step()

for kind in sys.argv[3:]:
    capture = PyTorchAdapter(CaptureEnvironment(f"{folder}/{kind}", CaptureRequest().to_json(), rank, 2))
    capture.install()
    train(kind)
    capture.flush(60)  # all of it, on a busy machine as well
    capture.uninstall()
    dist.barrier()
"""
FAULTS = {"not-scaled": Severity.INFO, "no-gradient": Severity.WARNING, "breaks": Severity.WARNING}


def test_two_processes_that_average(tmp_path: Path) -> None:
    kinds = ("right", "by-hand", *FAULTS)
    started = [subprocess.Popen([sys.executable, "-c", SCRIPT, str(rank), str(tmp_path), *kinds]) for rank in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    rule = UnlikeGradients()
    for kind in kinds:
        found = list(rule.check(Window(opened(tmp_path / kind), 139, "TRAIN", now=0.0, newest_step_at=0.0)))
        looked = opened(tmp_path / kind).columns(LOCAL_GRADIENT, "l2", last_step=139, mode="TRAIN")
        assert [len(column.steps) for column in looked] == [10, 10], kind
        assert [finding.worker for finding in found] == (["worker_1"] if kind in FAULTS else []), kind
        if found:
            assert rule.severity_of(found) is FAULTS[kind]
