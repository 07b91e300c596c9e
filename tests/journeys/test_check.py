"""`trackside check` on real scripts: each in processes of its own, with the real evaluator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited

TRACKSIDE = (sys.executable, "-c", "from trackside.cli import main; main(prog_name='trackside')")

SCRIPT = """
import atexit, sys
import torch
from torch import nn

class Drop(nn.Module):
    def forward(self, values):
        return nn.functional.dropout(values, 0.5, training={training})

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), Drop(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
print("the script's own line")
try:
    for step in range({steps}):
        values = torch.randn(32, 6)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(values), values[:, :3].argmax(1)).backward()
        optimizer.step()
        {after}
finally:
    open("cleaned-up", "w").close()
open("went-on", "w").close()
"""


def check(folder: Path, script: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
    (folder / "train.py").write_text(script)
    environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
    done = subprocess.run(
        [*TRACKSIDE, "check", "--json", "--out", "run", *arguments, "--", sys.executable, "train.py"],
        cwd=folder,
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize(
    ("training", "code", "faults"),
    [
        pytest.param("self.training", 0, [], id="right"),
        pytest.param("True", 1, ["evaluation-repeats"], id="dropout-in-evaluation"),
    ],
)
def test_a_script_is_rehearsed_and_ended(tmp_path: Path, training: str, code: int, faults: list[str]) -> None:
    script = SCRIPT.format(training=training, steps=10**6, after="")
    status, document, messages = check(tmp_path, script, "--steps", "8", "--junit", "check.xml")
    answers = {probe["probe"]: probe for probe in document["probes"]}
    assert [name for name, each in answers.items() if each["outcome"] == "fault"] == faults, document
    assert (status, document["steps"]) == (code, 8)
    assert len([each for each in answers.values() if each["outcome"] == "ok"]) >= 6
    assert "guessing costs 1.0" in answers["loss-at-the-start"]["observed"]
    assert "the script's own line" in messages
    assert (tmp_path / "cleaned-up").exists()
    assert not (tmp_path / "went-on").exists()
    suite = ElementTree.fromstring((tmp_path / "check.xml").read_bytes())  # noqa: S314 - our own text
    assert suite.attrib["failures"] == str(len(faults))


@pytest.mark.parametrize(
    ("steps", "after", "code", "outcome"),
    [
        pytest.param(5, "", 0, "ok", id="shorter-than-the-rehearsal"),
        pytest.param(5, "1 / (step < 1)", 1, "fault", id="fails"),
    ],
)
def test_a_script_that_ends_by_itself(tmp_path: Path, steps: int, after: str, code: int, outcome: str) -> None:
    status, document, _ = check(tmp_path, SCRIPT.format(training="self.training", steps=steps, after=after))
    answers = {probe["probe"]: probe["outcome"] for probe in document["probes"]}
    assert (status, answers["script-runs"]) == (code, outcome)
    assert ("checkpoint-comes-back" in answers) == (outcome == "ok")


def test_a_script_that_swallows_every_exit_is_ended_too(tmp_path: Path) -> None:
    script = SCRIPT.format(training="self.training", steps=10**6, after="")
    swallowing = script.replace(
        "        optimizer.step()\n",
        "        try:\n            optimizer.step()\n        except BaseException:\n            pass\n",
    )
    status, document, _ = check(tmp_path, swallowing, "--steps", "3")
    assert (status, document["steps"]) == (0, 3)
    assert not (tmp_path / "went-on").exists()


@pytest.mark.parametrize(
    ("fail_on", "code", "reason"),
    [
        pytest.param((), 1, "Failed: 1 issue at --fail-on warning.", id="by-default"),
        pytest.param(("--fail-on", "critical"), 0, "Passed.", id="only-critical-ones"),
    ],
)
def test_all_outputs_agree_on_a_warning_that_stands(
    tmp_path: Path, fail_on: tuple[str, ...], code: int, reason: str
) -> None:
    script = SCRIPT.format(training="self.training", steps=10**6, after="").replace(
        "        optimizer.zero_grad()\n", ""
    )
    (tmp_path / "train.py").write_text(script)
    environment = {name: value for name, value in inherited().items() if not name.startswith("TRACKSIDE_")}
    done = subprocess.run(
        [*TRACKSIDE, "check", "--steps", "20", "--junit", "check.xml", *fail_on, "--", sys.executable, "train.py"],
        cwd=tmp_path,
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert "WARNING  gradients-not-cleared" in done.stdout
    assert (done.returncode, reason in " ".join(done.stdout.split())) == (code, True), done.stdout
    suite = ElementTree.fromstring((tmp_path / "check.xml").read_bytes())  # noqa: S314 - our own text
    failed = [case.attrib["name"] for case in suite if case.find("failure") is not None]
    assert failed == (["gradients-not-cleared (warning)"] if code else [])


OWN_CLASS = """class Own:
    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters), "lr": 0.1}]

    def step(self):
        with torch.no_grad():
            for each in self.param_groups[0]["params"]:
                each -= 0.1 * each.grad
"""
BY_HAND = """with torch.no_grad():
            for each in model.parameters():
                each -= 0.1 * each.grad"""


@pytest.mark.parametrize(
    ("made", "step"),
    [
        pytest.param(f"{OWN_CLASS}\noptimizer = Own(model.parameters())", "optimizer.step()", id="of-another-kind"),
        pytest.param("", BY_HAND, id="by-hand"),
    ],
)
def test_steps_without_an_optimizer_of_pytorch_are_rehearsed_too(tmp_path: Path, made: str, step: str) -> None:
    script = SCRIPT.format(training="self.training", steps=10**6, after="")
    for old, new in (
        ("optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)", made),
        ("optimizer.step()", step),
        ("optimizer.zero_grad()", "model.zero_grad()"),
    ):
        script = script.replace(old, new)
    status, document, messages = check(tmp_path, script, "--steps", "20")
    answers = {probe["probe"]: probe["outcome"] for probe in document["probes"]}
    assert (status, document["steps"]) == (0, 20), messages
    assert [answers[name] for name in ("evaluation-repeats", "gradients-reach-parameters")] == ["ok", "ok"], document


def test_a_script_that_never_steps_is_ended_and_fails(tmp_path: Path) -> None:
    script = SCRIPT.format(training="self.training", steps=10**6, after="").replace("        optimizer.step()\n", "")
    status, document, _ = check(tmp_path, script, "--steps", "8")
    (answer,) = (probe for probe in document["probes"] if probe["probe"] == "script-runs")
    assert (status, document["steps"], answer["outcome"]) == (1, 0, "fault")
    assert "cleared 8 times" in answer["observed"]
