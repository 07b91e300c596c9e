"""A training that cannot go back says so in its run, where the user has asked for it; no other run has a note."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trackside.environment import inherited
from trackside.runs.rescues import read_rescue
from trackside.storage.open_store import open_store

_TREES = """
import numpy, xgboost
rows = numpy.arange(40.0).reshape(20, 2)
xgboost.train({"max_depth": 2}, xgboost.DMatrix(rows, rows[:, 0]), num_boost_round=5)
"""
_TORCH = """
import torch
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    net(torch.ones(3, 2)).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("script", "asked", "reason"),
    [
        pytest.param(_TREES, "1", "only trainings by PyTorch, and by Keras on it, go back", id="XGBoost"),
        pytest.param(_TREES, "", None, id="nobody asked"),
        pytest.param(_TORCH, "1", None, id="PyTorch"),
    ],
)
def test_the_run_says_that_its_training_never_goes_back(
    script: str, asked: str, reason: str | None, tmp_path: Path
) -> None:
    variables = {"TRACKSIDE_RUN": str(tmp_path / "run"), "TRACKSIDE_RESCUE": asked}
    subprocess.run([sys.executable, "-c", script], env={**inherited(), **variables}, check=True)
    assert (tmp_path / "run").exists()
    record = read_rescue(open_store(str(tmp_path / "run")))
    assert (record.reason if record is not None else None) == reason
