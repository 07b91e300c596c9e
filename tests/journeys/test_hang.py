"""A training that hangs, and a launcher that is killed: each in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.journeys.test_local_run import VERDICTS, start, wait_until
from trackside.local.process_table import living_processes

WAITS = "import time; open('up', 'w').close(); time.sleep(600)"
# Its limits are those of a training with steps of seconds, made short here.
HANGS = """
import queue
import torch
import trackside.profiling.hang_watch as watch
import trackside.frameworks.shared.speed_facts_file as file
watch.LEAST_SECONDS, watch.LOOK_SECONDS = 1.0, 0.2
file.FLUSH_SECONDS = 1.0
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(50):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
def fetch():
    return queue.Queue().get()
fetch()
"""

pytestmark = pytest.mark.xdist_group("local-run")


def ours(folder: Path) -> dict[int, str]:
    """Our own processes beside a run, by id: the evaluator and the sampler, in whatever session they are."""
    found: dict[int, str] = {}
    for pid in living_processes():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(word.startswith(str(folder / "run")) for word in words):
            kinds = [kind for kind in ("trackside.evaluation", "system_sampler.py") if any(kind in w for w in words)]
            found |= dict.fromkeys([pid], kinds[0]) if kinds else {}
    return found


def finish(process: subprocess.Popen[str], folder: Path) -> str:
    """Wait until nothing of ours is left, end what the training left, and return what was printed."""
    process.wait()
    wait_until(lambda: not ours(folder))
    for pid in living_processes():
        if _session_of(pid) == process.pid:
            os.kill(pid, signal.SIGKILL)
    return process.communicate()[1]  # nobody else holds the output


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL], ids=lambda sign: sign.name)
def test_nothing_of_ours_outlives_the_launcher(tmp_path: Path, sign: signal.Signals) -> None:
    process = start(tmp_path, "--", "python", "-c", WAITS)
    wait_until(lambda: sorted(ours(tmp_path).values()) == ["system_sampler.py", "trackside.evaluation"])
    os.kill(process.pid, sign)
    finish(process, tmp_path)


def test_a_hang_is_found_with_its_line_and_all_stacks(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(HANGS)
    process = start(tmp_path, "--rule", "hang:least_seconds=2", "--", "python", "train.py")
    try:
        wait_until(lambda: (tmp_path / VERDICTS).exists() and '"hang"' in (tmp_path / VERDICTS).read_text())
        (verdict,) = [v for v in map(json.loads, (tmp_path / VERDICTS).read_text().splitlines()) if v["rule"] == "hang"]
        assert (verdict["outcome"], verdict["severity"]) == ("issue-found", "warning")
        assert verdict["findings"][0]["place"] == "train.py:15"
        assert "queue.Queue().get()" in verdict["suspicions"][0]["because"]
        facts = json.loads((tmp_path / "run" / "profiler-output" / "performance" / "worker_0.json").read_text())
        (hang,) = facts["hangs"]
        assert "Thread MainThread" in hang["stacks"]
        assert "line 15, in fetch" in hang["stacks"]
        assert process.poll() is None, "it only observes"
    finally:
        os.kill(process.pid, signal.SIGTERM)
        finish(process, tmp_path)
