"""A capture request that lies in S3: which processes of a training read it, how often, and what if none can."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.warm_python import WarmPython
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.environment import inherited
from trackside.storage.local import LocalStore

EVERY_STEP = CaptureRequest((CollectionRequest("losses", Schedule(1)), CollectionRequest("outputs", Schedule(1))))
ADDRESS = "s3://bucket/capture-request.json"

SCRIPT = """
import os, subprocess, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # also where DataLoader's workers run this file once more

def train(*_):
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()

if __name__ == "__main__":
    {main}
"""
WORKERS = """
    for kind in ("spawn", "fork"):
        list(DataLoader(TensorDataset(torch.zeros(2, 1)), num_workers=1, multiprocessing_context=kind))
"""
PROGRAM = """
    subprocess.run([sys.executable, "-c", "import torch; torch.ones(1, requires_grad=True).sum()"], check=True)
"""
RANKS = """
    import torch.multiprocessing as mp
    mp.spawn(train, nprocs=1)
"""


class Server:
    """Answers any GET with the request, and notes down which were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        asked, body = self.asked, EVERY_STEP.to_json().encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def run_script(tmp_path: Path, warm_python: WarmPython) -> Callable[[str, str], subprocess.CompletedProcess[str]]:
    """Runs a script that is captured, with S3 at that address."""

    def run_it(main: str, endpoint: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "train.py"
        path.write_text(SCRIPT.format(main=main.strip()))
        environment = {
            **inherited(),
            "TRACKSIDE_RUN": str(tmp_path / "run"),
            "TRACKSIDE_CAPTURE_REQUEST": ADDRESS,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        return warm_python.run(path, env=environment)

    return run_it


@pytest.mark.parametrize(
    ("main", "times", "steps"),
    [
        pytest.param("train()", 1, 3, id="a training"),
        pytest.param(
            f"{WORKERS.strip()}\n    train()\n{WORKERS}{PROGRAM}",
            1,
            3,
            id="with helpers before its first step and after",
        ),
        pytest.param("pass", 1, 0, id="a process that has built an optimizer"),
        pytest.param(RANKS, 2, 3, id="a rank that is spawned, and its launcher, which has built an optimizer"),
    ],
)
def test_each_process_that_trains_reads_it_once_and_its_helpers_never(
    *, run_script: Callable[..., Any], server: Server, tmp_path: Path, read_run: Any, main: str, times: int, steps: int
) -> None:
    done = run_script(main, server.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert server.asked == ["/bucket/capture-request.json"] * times
    if steps:
        saved = read_run(LocalStore(tmp_path / "run" / "debug-output"))
        assert sorted(saved) == list(range(steps))
        assert "Linear_output_0" in saved[0] or main is RANKS  # what a model gives before the first step is saved, too


def test_where_it_cannot_be_read_the_default_is_saved_and_that_is_said_once(
    run_script: Callable[..., Any], tmp_path: Path, read_run: Any
) -> None:
    done = run_script("train()", "http://127.0.0.1:9")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("trackside: the capture request cannot be read: ")
    assert ADDRESS.rpartition("/")[0] in line
    assert "The default request is used instead" in line
    assert sorted(read_run(LocalStore(tmp_path / "run" / "debug-output"))) == [0]
