"""The report of a process that captured nothing: what it did, so that `trackside run` can name the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.warm_python import WarmPython
from trackside.contracts.run.uncaptured import UncapturedProcess
from trackside.environment import inherited

BEGIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
def backward():
    x = torch.randn(8, 4)
    (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
"""
BY_HAND = """
for _ in range(PASSES):
    model.zero_grad()
    backward()
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.05)
"""
ACCUMULATED = """
optimizer = torch.optim.Adam(model.parameters())
for _ in range(6):
    backward()
optimizer.step()
"""
GRADIENTS_ONLY = """
for _ in range(5):
    model.zero_grad()
    backward()
"""
FIRST_STEP_LATE = """
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with torch.no_grad():
    for _ in range(3):
        model.weight.add_(1.0)
backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(BY_HAND.replace("PASSES", "2"), UncapturedProcess(backward_passes=2), id="twice-by-hand"),
        pytest.param(
            "optimizer = torch.optim.Adam(model.parameters())" + BY_HAND.replace("PASSES", "5"),
            UncapturedProcess(backward_passes=5, optimizers=("Adam",), manual_update="train.py:7"),
            id="by-hand-beside-an-optimizer",
        ),
        pytest.param(BY_HAND.replace("PASSES", "5"), None, id="by-hand"),
        pytest.param(GRADIENTS_ONLY, UncapturedProcess(backward_passes=5), id="gradients-only"),
        pytest.param(
            "optimizer = torch.optim.Adam(model.parameters())\nbackward()",
            UncapturedProcess(backward_passes=1, optimizers=("Adam",)), id="never-stepped",
        ),
        pytest.param("model(torch.randn(8, 4))", UncapturedProcess(), id="inference"),
        pytest.param("raise ValueError('x')", UncapturedProcess(error="ValueError"), id="early-crash"),
        pytest.param(ACCUMULATED, None, id="accumulated-then-stepped"),
        pytest.param(FIRST_STEP_LATE, None, id="changed-before-training"),
    ],
)  # fmt: skip
def test_only_a_process_that_captured_nothing_leaves_a_report(
    code: str, expected: UncapturedProcess | None, warm_python: WarmPython, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(BEGIN + code)
    run = tmp_path / "run"
    environment = {**inherited(), "TRACKSIDE_RUN": str(run), "TRACKSIDE_ENDED_BY": "trackside-run"}
    done = warm_python.run(tmp_path / "train.py", cwd=tmp_path, env=environment)
    reports = [UncapturedProcess.from_json(file.read_bytes()) for file in run.glob("uncaptured/*.json")]
    found = [(each.backward_passes, each.optimizers, each.manual_update, each.error) for each in reports]
    assert found == (
        []
        if expected is None
        else [(expected.backward_passes, expected.optimizers, expected.manual_update, expected.error)]
    ), done.stderr
    assert all("torch" in each.frameworks for each in reports)


def test_elsewhere_none_is_left(warm_python: WarmPython, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BEGIN + GRADIENTS_ONLY)
    run = tmp_path / "run"
    done = warm_python.run(tmp_path / "train.py", cwd=tmp_path, env={**inherited(), "TRACKSIDE_RUN": str(run)})
    assert (done.returncode, done.stderr) == (0, "")
    assert not run.exists()
