"""Findings as alerts of the real trackio, whose folder `__main__.py` sets: by a callback and `trackside export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import trackio
from click.testing import CliRunner

from trackside.cli import main
from trackside.integrations.judged_training import JudgedTraining


def train(training: JudgedTraining, *, learning_rate: float) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    inputs = torch.randn(64, 10)
    labels = (inputs[:, 0] > 0).long()
    training.begin()
    for _ in range(150):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        training.look()
    training.finish()


def alerts_of(project: str, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = trackio.Api().alerts(project, run=run)
    return found


@pytest.mark.parametrize(
    ("learning_rate", "fires"), [pytest.param(1e5, True, id="broken"), pytest.param(0.05, False, id="healthy")]
)
def test_a_live_run_gets_an_alert_for_each_problem(
    learning_rate: float, fires: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    training = JudgedTraining(report_to=["trackio"])
    run = trackio.init(project=tmp_path.name, embed=False)
    train(training, learning_rate=learning_rate)
    trackio.finish()
    alerts = alerts_of(tmp_path.name, run.name)
    assert bool(alerts) is fires
    assert any(alert["level"] == "error" for alert in alerts) is fires
    assert all(alert["title"].startswith("Trackside: ") and "what to do" in alert["text"] for alert in alerts)


def test_without_a_live_run_the_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    training = JudgedTraining(report_to=["trackio"])
    train(training, learning_rate=1e5)
    assert training.issues


def test_a_recorded_run_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    training = JudgedTraining("broken")
    train(training, learning_rate=1e5)
    result = CliRunner().invoke(main, ["export", "broken", f"{tmp_path.name}/one", "--to", "trackio"])
    assert result.exit_code == 0, result.output
    assert len(alerts_of(tmp_path.name, "one")) == len(training.issues) > 0
