"""The plugin in a real pytest: which tests it judges, and what a failing one shows."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET  # the report is pytest's own
from pathlib import Path

from tests.patience import HANGS_SECONDS
from tests.warm_python import WarmPython

TRAININGS = """
import pytest
import torch

def train(learning_rate, steps=40):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    inputs = torch.randn(64, 10)
    labels = (inputs[:, 0] > 0).long()
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
"""
MARKED = (
    TRAININGS
    + """
@pytest.mark.trackside
def test_broken():
    train(1e5)

@pytest.mark.trackside(fail_on="warning")
def test_healthy():
    train(0.1)

@pytest.mark.trackside(rules=["dead-relu"], fail_on="warning")
def test_chosen_rules():
    train(0.1)

@pytest.mark.trackside
def test_no_training():
    pass

@pytest.mark.trackside
def test_own_failure():
    train(1e5)
    assert 1 == 2

@pytest.mark.trackside(fail_on="always")
def test_wrong_marker():
    pass

def test_not_chosen():
    train(1e5)

def test_fixture(trackside_run):
    train(0.1)
    assert not [problem for problem in trackside_run.judge() if problem.standing]

def test_broken_with_fixture(trackside_run):
    train(1e5)
"""
)


def run_pytest(python: WarmPython, folder: Path, tests: str, *words: str) -> dict[str, tuple[str, str]]:
    """Return outcome and text of each test, as pytest's own JUnit report has them."""
    (folder / "test_trainings.py").write_text(tests)
    (folder / "start.py").write_text("import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))\n")
    options = ["--junitxml=report.xml", "-p", "no:cacheprovider", "--strict-markers", "-W", "error"]
    done = python.run(folder / "start.py", *options, *words, cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert not re.search(r"\d+ warnings?\b", done.stdout)  # of pytest itself
    found = {}
    for case in ET.parse(folder / "report.xml").getroot().iter("testcase"):  # noqa: S314
        inner = next(iter(case), None)
        found[case.attrib["name"]] = ("passed", "") if inner is None else (inner.tag, inner.text or "")
    return found


def test_each_test_is_judged_as_it_asks(warm_python: WarmPython, tmp_path: Path) -> None:
    outcomes = run_pytest(warm_python, tmp_path, MARKED)
    assert {name: outcome for name, (outcome, _) in outcomes.items()} == {
        "test_broken": "failure",
        "test_healthy": "passed",
        "test_chosen_rules": "passed",
        "test_no_training": "failure",
        "test_own_failure": "failure",
        "test_wrong_marker": "failure",
        "test_not_chosen": "passed",
        "test_fixture": "passed",
        "test_broken_with_fixture": "failure",
    }
    for name in ("test_broken", "test_broken_with_fixture"):
        assert "CRITICAL" in outcomes[name][1]
        assert "what to do" in outcomes[name][1]
    assert "captured no training" in outcomes["test_no_training"][1]
    assert "assert 1 == 2" in outcomes["test_own_failure"][1]
    assert "CRITICAL" not in outcomes["test_own_failure"][1]
    assert 'Write "warning" or "critical".' in outcomes["test_wrong_marker"][1]


def test_the_option_judges_every_training(warm_python: WarmPython, tmp_path: Path) -> None:
    tests = "def test_broken():\n    train(1e5)\n\ndef test_healthy():\n    train(0.1)\n\ndef test_none():\n    pass\n"
    outcomes = run_pytest(warm_python, tmp_path, f"{TRAININGS}\n{tests}", "--trackside")
    assert [outcome for outcome, _ in outcomes.values()] == ["failure", "passed", "passed"]
    assert "CRITICAL" in outcomes["test_broken"][1]


def test_pytest_starts_without_anything_heavy(tmp_path: Path) -> None:
    (tmp_path / "test_empty.py").write_text(
        "import sys\n\ndef test_empty():\n"
        "    ours = {name for name in sys.modules if name.partition('.')[0] in {'trackside', 'numpy', 'torch'}}\n"
        "    assert ours == {'trackside', 'trackside.integrations', 'trackside.integrations.pytest_plugin'}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
