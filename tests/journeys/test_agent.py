"""A coding agent watches a training over `trackside mcp`, stops it, mends the script by the verdict, and proves it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited

TRACKSIDE = (sys.executable, "-m", "trackside")
SCRIPT = """\
import sys
import time

import torch

torch.manual_seed(0)
inputs = torch.randn(256, 8)
labels = (inputs.sum(1) > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
criterion = torch.nn.CrossEntropyLoss()
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
    time.sleep(0.005)
"""


def start(folder: Path, name: str, steps: int) -> subprocess.Popen[bytes]:
    words = [*TRACKSIDE, "run", "-q", "--out", f"runs/{name}", "--", sys.executable, "train.py", str(steps)]
    environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, cwd=folder, env={**environment, "OMP_NUM_THREADS": "1"}, stdout=quiet, stderr=quiet)


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    answer: dict[str, Any] | None = result.structured_content
    assert answer is not None
    return answer


async def news(client: Client, run: str, *, until: str, since: str = "") -> dict[str, Any]:
    with anyio.fail_after(HANGS_SECONDS):
        while True:
            found = await ask(client, "wait_for_news", run=run, until=until, since=since, seconds=10)
            if found["ended_by"] != "timeout":
                return found


async def appears(client: Client, run: str) -> None:
    with anyio.fail_after(HANGS_SECONDS):
        while run not in [each["run"] for each in (await ask(client, "list_runs"))["runs"]]:
            await anyio.sleep(0.2)


def test_a_run_is_watched_stopped_mended_and_proved(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    (tmp_path / "runs").mkdir()

    async def talk() -> None:
        parameters = StdioServerParameters(
            command=TRACKSIDE[0],
            args=[*TRACKSIDE[1:], "mcp", "runs", "--allow-actions"],
            cwd=tmp_path,
            env=dict(inherited()),
        )
        async with Client(stdio_client(parameters)) as client:
            before = start(tmp_path, "before", 1_000_000)
            await appears(client, "before")
            found = await news(client, "before", until="issue")
            assert found["state"] == "running"
            assert found["problems"], found
            assert (await ask(client, "stop_run", run="before", reason="the loss is not finite"))["run"] == "before"
            assert (await news(client, "before", until="end"))["state"] == "stopped"
            assert before.wait(HANGS_SECONDS) == 1
            verdict = await ask(client, "read_verdict", run="before")
            problem = verdict["problems"][0]
            assert problem["cause"] == "the learning rate is too high", verdict
            place = problem["place"]
            assert place["text"] == SCRIPT.splitlines()[place["line"] - 1]
            proposed = problem["change"].split()[3].rstrip(";")
            script.write_text(SCRIPT.replace("lr=5.0", f"lr={proposed}"))
            after = start(tmp_path, "after", 600)
            await appears(client, "after")
            await news(client, "after", until="end")
            assert after.wait(HANGS_SECONDS) == 0
            proof = await ask(client, "compare_runs", a="before", b="after")
            assert (proof["cure"], proof["new"]) == ("mended", []), proof

    anyio.run(talk)
