"""`action.yml`: each step of the composite action, run by bash as a runner of GitHub runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
SCRIPT = """\
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
inputs = torch.randn(512, 8)
labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long()
for step in range(120):
    rows = torch.randint(0, 512, (32,))
    loss = torch.nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
    loss.backward()
    optimizer.step()
"""
CLEARED = SCRIPT.replace("    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()")


class Ended(NamedTuple):
    """What a job with the action left."""

    code: int
    log: str
    outputs: dict[str, str]
    summary: str
    kept: set[str]


def job(folder: Path, script: str, **inputs: str) -> Ended:
    """Run the action's step that trains, in a folder with the script, as a runner does."""
    (folder / "train.py").write_text(script, encoding="utf-8")
    (folder / "temp").mkdir()
    chosen = {name: str(of.get("default", "")) for name, of in ACTION["inputs"].items()} | inputs
    (step,) = (each for each in STEPS if each.get("id") == "train")
    files = {name: folder / "temp" / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
    environment |= {name: filled(text, chosen) for name, text in step["env"].items()}
    environment |= {name: str(path) for name, path in files.items()} | {"RUNNER_TEMP": str(folder / "temp")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        # The flags of `shell: bash` on a runner.
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines())
    summary = files["GITHUB_STEP_SUMMARY"]
    kept = {path.name for path in (folder / "temp" / "trackside").iterdir() if path.is_file()}
    shown = summary.read_text(encoding="utf-8") if summary.exists() else ""
    return Ended(done.returncode, done.stdout + done.stderr, outputs, shown, kept)


def filled(text: str, inputs: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: inputs[found[1]], text)


def test_a_fault_fails_the_job_at_its_line_and_leaves_a_report(tmp_path: Path) -> None:
    ended = job(tmp_path, SCRIPT, command="python train.py")
    assert (ended.code, ended.outputs["exit-code"]) == (1, "1"), ended.log
    number = SCRIPT.splitlines().index("    loss.backward()") + 1
    assert re.search(rf"^::error file=train\.py,line={number},title=TS203 ", ended.log, re.MULTILINE), ended.log
    assert "gradients-not-cleared" in ended.summary
    assert ended.kept == {"junit.xml", "report.html", "findings.json", "trackside.sarif"}


def test_a_sound_training_passes(tmp_path: Path) -> None:
    ended = job(tmp_path, CLEARED, command="python train.py", mode="run")
    assert (ended.code, ended.outputs["exit-code"]) == (0, "0"), ended.log
    assert "::error" not in ended.log


def test_an_unknown_mode_is_named(tmp_path: Path) -> None:
    ended = job(tmp_path, CLEARED, command="python train.py", mode="rehearse")
    assert ended.code == 2
    assert "::error title=trackside::mode is 'rehearse'; it must be check or run." in ended.log


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["name"])
def test_a_step_takes_inputs_by_variables_and_actions_by_their_commit(step: dict[str, Any]) -> None:
    """An expression within a script would run what a pull request writes into it."""
    if "run" in step:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
    else:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
