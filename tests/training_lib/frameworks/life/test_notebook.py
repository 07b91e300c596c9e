"""One line in a notebook: torch may be there, the model may be built, cells are run again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import trackside
from tests.patience import HANGS_SECONDS

CELLS = [
    (
        "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
        "model = nn.Linear(4, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    ),
    "import trackside\nhook = trackside.watch('runs/first', save={'losses': 1, 'weights': 2})",
    (
        "def train(steps):\n"
        "    for _ in range(steps):\n"
        "        optimizer.zero_grad()\n"
        "        nn.functional.mse_loss(model(torch.ones(3, 4)), torch.zeros(3, 2)).backward()\n"
        "        optimizer.step()\n"
        "train(3)"
    ),
    "import trackside\nhook = trackside.watch('runs/first', save={'losses': 1, 'weights': 2})",  # the cell, run again
    "import os, signal\ntrain(1)\nos.kill(os.getpid(), signal.SIGINT)\ntrain(100)",  # the button that interrupts
    "train(2)",
    "hook = trackside.watch('runs/second', save={'losses': 1})\ntrain(2)",
]

# Runs in the notebook's environment: a real kernel, fed with cells.
KERNEL = """
import json, sys
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="python3", startup_timeout=600)
for cell in json.load(sys.stdin):
    reply = client.execute_interactive(cell, timeout=600, output_hook=lambda message: print(message["content"]))
    print("STATUS", reply["content"]["status"], flush=True)
client.stop_channels()
manager.shutdown_kernel()
"""


def test_cells_are_captured(notebook_python: Path, tmp_path: Path) -> None:
    command = [notebook_python, "-W", "ignore", "-c", KERNEL]
    done = subprocess.run(
        command,
        input=json.dumps(CELLS),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    statuses = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("STATUS")]
    assert statuses == ["ok", "ok", "ok", "ok", "error", "ok", "ok"], done.stdout
    assert "Trackside" not in done.stdout + done.stderr
    first = trackside.open_trial(str(tmp_path / "runs" / "first"))
    saved = [step.step for step in first.tensor("MSELoss_output_0")]
    assert saved == list(range(len(saved)))
    assert 6 <= len(saved) < 106
    assert first.has_ended, "another run was begun"
    second = trackside.open_trial(str(tmp_path / "runs" / "second"))
    assert second.steps() == (0, 1)
    assert second.has_ended, "the kernel was shut down"
