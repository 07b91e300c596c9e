"""Findings in the real W&B (offline) and MLflow (a store of files), from a callback and by `trackside export`."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
import torch
import wandb
from click.testing import CliRunner
from wandb.proto import wandb_internal_pb2

from trackside.cli import main
from trackside.integrations.judged_training import JudgedTraining

BLOCK_BYTES, HEADER_BYTES, FILE_HEADER_BYTES = 32 * 1024, 7, 7


def train(training: JudgedTraining, *, learning_rate: float, steps: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    inputs = torch.randn(64, 10)
    labels = (inputs[:, 0] > 0).long()
    training.begin()
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        training.look()
    training.finish()


def offline_records(folder: Path) -> list[Any]:
    """Return the records of the one offline run below `folder`, as W&B's own messages."""
    wandb.teardown()  # the end of a run does not wait for its file
    (file,) = folder.rglob("*.wandb")
    records = []
    for data in _log_records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        records.append(record)
    return records


def _log_records(data: bytes) -> Iterator[bytes]:
    """Yield the records of LevelDB's log format, in which W&B stores an offline run."""
    position, whole = FILE_HEADER_BYTES, b""
    while position + HEADER_BYTES <= len(data):
        left = BLOCK_BYTES - position % BLOCK_BYTES
        if left < HEADER_BYTES:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        position += HEADER_BYTES
        whole += data[position : position + length]
        position += length
        if kind in {1, 4}:  # a whole one, or the last part
            yield whole
            whole = b""


def summary_of(records: list[Any]) -> dict[str, Any]:
    found = {}
    for record in records:
        for item in record.summary.update:
            found[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    yield tmp_path
    wandb.teardown()  # else the next run is stored in this folder, too


@pytest.mark.parametrize(
    ("learning_rate", "worst"), [pytest.param(1e5, "critical", id="broken"), pytest.param(0.05, "none", id="healthy")]
)
def test_a_live_run_of_wandb_gets_alerts_summary_config_and_a_tag(
    learning_rate: float, worst: str, folder: Path
) -> None:
    training = JudgedTraining(report_to=["wandb"])
    with wandb.init(project="digits", config={"lr": learning_rate}, tags=["mine"]):
        train(training, learning_rate=learning_rate, steps=150)
    records = offline_records(folder)
    alerts = [record.alert for record in records if record.WhichOneof("record_type") == "alert"]
    assert len(alerts) >= len(training.issues), [record.WhichOneof("record_type") for record in records]
    assert bool(alerts) is (worst != "none")
    assert any(alert.level == "ERROR" for alert in alerts) is (worst == "critical")
    assert all(alert.title.startswith("Trackside: ") and "what to do" in alert.text for alert in alerts)
    summary = summary_of(records)
    assert summary["trackside/issues"] == len(training.issues)
    assert summary["trackside/worst"] == worst
    tags = [set(record.run.tags) for record in records if record.WhichOneof("record_type") == "run"]
    assert {"mine", f"trackside: {worst}"} <= tags[-1]
    config = {item.key: item.value_json for record in records for item in record.config.update}
    assert json.loads(config["trackside"]) == {"run": str(training.folder), "worst": worst}


def test_without_a_live_run_nothing_is_sent_and_the_training_goes_on(folder: Path) -> None:
    training = JudgedTraining(report_to=["wandb", "mlflow"])
    train(training, learning_rate=1e5, steps=150)
    assert training.issues
    assert not list(folder.rglob("*.wandb"))
    assert mlflow.search_runs(search_all_experiments=True).empty


def test_an_active_run_of_mlflow_gets_tags_and_the_card(folder: Path) -> None:
    training = JudgedTraining(report_to=["mlflow"])
    with mlflow.start_run() as run:
        train(training, learning_rate=1e5, steps=150)
    stored = mlflow.get_run(run.info.run_id)
    assert stored.data.tags["trackside.worst"] == "critical"
    assert stored.data.tags["trackside.issues"] == str(len(training.issues))
    lead = training.issues[0].lead
    assert lead.configuration_name in stored.data.tags[f"trackside.{lead.configuration_name}"]
    card = mlflow.artifacts.load_text(f"{stored.info.artifact_uri}/trackside/{lead.configuration_name}.txt")
    assert "what to do" in card


def test_a_recorded_run_is_exported(folder: Path) -> None:
    training = JudgedTraining("broken")
    train(training, learning_rate=1e5, steps=150)

    result = CliRunner().invoke(main, ["export", "broken", "digits", "--to", "wandb"])
    assert result.exit_code == 0, result.output
    records = offline_records(folder)
    alerts = [record for record in records if record.WhichOneof("record_type") == "alert"]
    assert len(alerts) == len(training.issues) > 0
    assert summary_of(records)["trackside/worst"] == "critical"
    (artifact,) = [each.artifact for each in records if each.WhichOneof("record_type") == "artifact"]
    assert (artifact.type, [entry.path for entry in artifact.manifest.contents]) == ("report", ["report.html"])

    for destination in ("faults", mlflow.MlflowClient().create_run("0").info.run_id):
        result = CliRunner().invoke(main, ["export", "broken", destination, "--to", "mlflow"])
        assert result.exit_code == 0, result.output
        stored = mlflow.get_run(result.stdout.split()[-1])
        assert stored.data.tags["trackside.worst"] == "critical"
        assert stored.data.tags["trackside.run"] == "broken"
        report = mlflow.artifacts.load_text(f"{stored.info.artifact_uri}/trackside/report.html")
        assert report.startswith("<!DOCTYPE html>")
        assert "exploding" in report or "loss" in report
    assert stored.info.run_id == destination
