"""One line in a notebook: torch may be there, the model may be built, cells are run again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

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

# The same kernel goes on: the findings of a training show in the notebook that it runs in.
BROKEN = (
    "import torch\nfrom torch import nn\n"
    "class Net(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.fc = nn.Linear(4, 2)\n"
    "    def forward(self, values):\n"
    "        return self.fc(values)\n"
    "def broken(steps):\n"
    "    model = Net()\n"
    "    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)\n"
    "    for _ in range(steps):\n"  # without zero_grad
    "        nn.functional.mse_loss(model(torch.randn(8, 4)), torch.zeros(8, 2)).backward()\n"
    "        optimizer.step()\n"
    "    return model"
)
RULES = "rules=['gradients-not-cleared']"
JUDGED = {
    "the training": BROKEN,
    "a block": f"with trackside.watch({RULES}) as run:\n    broken(40)",
    "its findings": "print(run.findings[0].configuration_name, run.findings[0].lead.place)\nrun",
    "a cell": f"again = trackside.watch({RULES})",
    "a cell that trains": "broken(40)\nagain.close()",
    "the cell, run again": f"old = again.run\nagain = trackside.watch({RULES})",
    "it begins anew": "broken(1)\nprint(again.run != old, again._session.training.is_closed, again.findings)",
    "deleted": "session = again._session\ndel again",
    "ended": "print(session.training.is_closed)",
    "a name that has ended": (
        f"with trackside.watch('runs/second', {RULES}) as named:\n    broken(3)\nprint(named.run.endswith('second-2'))"
    ),
    "the class of a layer": (
        "facts = trackside.open_trial(named.run).model_facts\nprint([module.line for module in facts.modules])"
    ),
}

# Runs in the notebook's environment: a real kernel, fed with cells. Prints each message as (cell, type, content).
KERNEL = """
import json, sys
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="python3", startup_timeout=600)
for number, cell in enumerate(json.load(sys.stdin)):
    def note(message):
        print(json.dumps([number, message["msg_type"], message["content"]], default=str))
    reply = client.execute_interactive(cell, timeout=600, output_hook=note)
    print(json.dumps([number, "reply", reply["content"]["status"]]), flush=True)
client.stop_channels()
manager.shutdown_kernel()
"""


class Notebook:
    """What a kernel has answered to `CELLS`, then to `JUDGED`."""

    def __init__(self, folder: Path, messages: list[tuple[int, str, Any]]) -> None:
        self.folder = folder
        self._messages = messages

    def statuses(self) -> list[str]:
        return [content for _, kind, content in self._messages if kind == "reply"]

    def shown(self, cell: str, *, kinds: tuple[str, ...] = ("stream",), form: str = "text/plain") -> list[str]:
        """What a cell of `JUDGED` has shown, in order."""
        number = len(CELLS) + list(JUDGED).index(cell)
        contents = [content for at, kind, content in self._messages if at == number and kind in kinds]
        return [content.get("text") or content.get("data", {}).get(form, "") for content in contents]

    def printed(self, cell: str) -> str:
        """What a cell of `JUDGED` has printed: a busy kernel may send a line in parts."""
        return "".join(self.shown(cell))

    def all_text(self) -> str:
        return json.dumps([content for _, kind, content in self._messages if kind != "reply"])


@pytest.fixture(scope="module")
def notebook(notebook_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    folder = tmp_path_factory.mktemp("notebook")
    done = subprocess.run(
        [notebook_python, "-W", "ignore", "-c", KERNEL],
        input=json.dumps([*CELLS, *JUDGED.values()]),
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Trackside" not in done.stdout + done.stderr
    return Notebook(folder, [tuple(json.loads(line)) for line in done.stdout.splitlines()])


def test_cells_are_captured(notebook: Notebook) -> None:
    statuses = notebook.statuses()
    assert statuses[: len(CELLS)] == ["ok", "ok", "ok", "ok", "error", "ok", "ok"], notebook.all_text()
    assert statuses[len(CELLS) :] == ["ok"] * len(JUDGED), notebook.all_text()
    first = trackside.open_trial(str(notebook.folder / "runs" / "first"))
    saved = [step.step for step in first.tensor("MSELoss_output_0")]
    assert saved == list(range(len(saved)))
    assert 6 <= len(saved) < 106
    assert first.has_ended, "another run was begun"
    second = trackside.open_trial(str(notebook.folder / "runs" / "second"))
    assert second.steps() == (0, 1)
    assert second.has_ended, "another run was begun"


DISPLAYS = ("display_data", "update_display_data")


def test_a_display_of_the_cell_shows_the_finding_with_a_line_of_the_cell(notebook: Notebook) -> None:
    # The run of an earlier cell ends here; its own display may change once more.
    texts = [text for text in notebook.shown("a block", kinds=DISPLAYS) if not text.startswith("trackside first:")]
    assert "watching, no step judged yet" in texts[0]
    assert "ended, 1 problem, critical, 1 rule through step 39" in texts[-1]
    assert "gradients-not-cleared" in texts[-1]
    place = "In [8], line 13"  # 8: the first cell of `JUDGED`
    assert place in texts[-1]
    html = notebook.shown("a block", kinds=DISPLAYS, form="text/html")[-1]
    assert place in html
    assert "<script" not in html
    assert notebook.printed("its findings") == f"gradients-not-cleared {place}\n"
    assert "gradients-not-cleared" in notebook.shown("its findings", kinds=("execute_result",), form="text/html")[0]


def test_a_new_finding_also_shows_below_the_cell_that_trained(notebook: Notebook) -> None:
    assert "no step judged yet" in notebook.shown("a cell", kinds=DISPLAYS)[0]
    assert any(
        "gradients-not-cleared" in text for text in notebook.shown("a cell that trains", kinds=("display_data",))
    )
    assert not any("gradients-not-cleared" in text for text in notebook.shown("ended", kinds=("display_data",)))


def test_a_cell_run_again_begins_a_new_run_and_a_deleted_one_ends(notebook: Notebook) -> None:
    assert notebook.printed("it begins anew") == "True False no findings\n"
    assert notebook.printed("ended") == "True\n"
    assert notebook.printed("a name that has ended").endswith("True\n")
    runs = sorted((notebook.folder / ".trackside" / "runs").iterdir())
    assert [(run / "debug-output" / "training_job_end.ts").exists() for run in runs] == [True] * 3


def test_lines_of_modules_point_into_the_cell_of_their_class(notebook: Notebook) -> None:
    shown = notebook.shown("the class of a layer")[0]
    assert "'In [8], line 6'" in shown
