from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.training_lib.cli.gradient_runs import write_run
from trackside.cli import main
from trackside.local.stop_request import requested_stop
from trackside.runs.run_folder import RunRecord, held, write_record


def test_a_run_that_goes_on_gets_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run("digits", [1.0], ended=False)
    folder = Path(".trackside/runs/digits")
    write_record(folder, RunRecord(("python", "train.py"), 1.0))
    with held(folder):
        result = CliRunner().invoke(main, ["stop", "--reason", "the loss is not finite"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "Asked to stop: digits. Its end: trackside wait digits --until end\n"
    assert requested_stop(folder) == "the loss is not finite"


def test_a_run_that_has_ended_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run("digits", [1.0])
    result = CliRunner().invoke(main, ["stop", "digits"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "digits is no run that `trackside run` runs on this machine now." in result.stderr
    assert requested_stop(Path(".trackside/runs/digits")) == ""
