"""An ordinary training in a package of its own, that knows nothing of Trackside, and how it is started."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS
from tests.warm_python import WarmPython
from trackside.environment import inherited

# Alone or as a rank of several; with a DataLoader worker, which is a process that has torch and the environment too.
TRAIN = """
import os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)

    def forward(self, values):
        return self.fc(values)

def train(context):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Net()
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(24, 8), torch.randint(0, 2, (24,)))
    for values, labels in DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context=context):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(values), labels).backward()
        optimizer.step()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    print("trained")

if __name__ == "__main__":
    train(sys.argv[1] if len(sys.argv) > 1 else "fork")
"""
STEPS = 6
TRACKSIDE = (sys.executable, "-c", "from trackside.cli import main; main(prog_name='trackside')")


@dataclass(frozen=True)
class Done:
    """How a command ended; `lines` are our lines on its stderr."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return [line for line in self.stderr.splitlines() if line.startswith("trackside: ")]


Start = Callable[..., Done]


@pytest.fixture(scope="session")
def steps() -> int:
    return STEPS


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder that the package `pkg` lies in."""
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "train.py").write_text(TRAIN)
    return tmp_path


@pytest.fixture
def start(package: Path) -> Start:
    """Runs a command in the package's folder, of a Python that is ours unless named, with some variables more."""

    def run_it(*command: str | Path, python: str | Path = sys.executable, **more: str) -> Done:
        environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
        environment["PATH"] = f"{Path(python).parent}:{environment.get('PATH', '')}"
        environment |= {"OMP_NUM_THREADS": "1", "COLUMNS": "200", **more}
        done = subprocess.run(
            [str(word) for word in command],
            cwd=package, env=environment, capture_output=True, text=True, timeout=HANGS_SECONDS, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    return run_it


@pytest.fixture
def start_script(package: Path, warm_python: WarmPython) -> Start:
    """Runs a script in the package's folder, where it is not the start of its Python that is tested."""

    def run_it(script: Path, *arguments: str, **more: str) -> Done:
        environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
        done = warm_python.run(script, *arguments, cwd=package, env={**environment, **more})
        return Done(done.returncode, done.stdout, done.stderr)

    return run_it


@pytest.fixture
def start_ranks(package: Path, warm_python: WarmPython) -> Callable[..., list[Done]]:
    """Runs a script as two ranks, with the variables that torchrun would give them."""

    def run_them(script: Path, *arguments: str, **more: str) -> list[Done]:
        environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        places = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **more}
        ranks = [
            warm_python.start_captured(
                script, *arguments, cwd=package, env={**environment, **places, "RANK": str(rank)}
            )
            for rank in range(2)
        ]
        ended = [rank.finish() for rank in ranks]
        return [Done(done.returncode, done.stdout, done.stderr) for done in ended]

    return run_them


@pytest.fixture
def trackside_run(start: Start) -> Start:
    """The same below `trackside run`, into the folder `run`."""

    def run_it(*command: str | Path, python: str | Path = sys.executable) -> Done:
        ours = ("run", "--quiet", "--out", "run", "--save-interval", "1", "--fail-on", "never", "--")
        return start(*TRACKSIDE, *ours, *command, python=python)

    return run_it
