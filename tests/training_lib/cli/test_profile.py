"""`trackside profile` as a person reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.training_lib.cli.gradient_runs import write_run
from tests.training_lib.performance.test_verdict import COMPUTE, SLOW_COLLATE, measured
from trackside.cli import main
from trackside.cli.profile import print_verdict
from trackside.performance.document import speed_document
from trackside.performance.measured import Measured


@pytest.mark.parametrize(
    ("run", "shown", "hidden"),
    [
        pytest.param(
            measured(SLOW_COLLATE, data=50, **COMPUTE),
            ["input-bound: ", "gain    4.", "DataLoader of Images at train.py:31: num_workers=0",
             "data.py:22 in work", "time.sleep(0.05)", "change  num_workers=", "100 steps of 59 ms", "data", "50 ms"],
            ["incomplete"], id="bound",
        ),
        pytest.param(
            measured(data=0.3, **COMPUTE), ["compute-bound: ", "100 steps of 9.3 ms"], ["gain", "change"], id="computes"
        ),
    ],
)  # fmt: skip
def test_shows_the_verdict_with_its_evidence(
    run: Measured, shown: list[str], hidden: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_verdict(speed_document("run", {"worker_0": run})["workers"][0], color=False)
    text = capsys.readouterr().out
    assert [one for one in shown if one not in text] == []
    assert [one for one in hidden if one in text] == []
    assert "\x1b" not in text


def test_a_run_without_times_is_incomplete_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run("bad", [1.0, 1.0, 1.0])
    result = CliRunner().invoke(main, ["profile", "bad"])
    assert result.exit_code == 0
    assert result.stdout.startswith("incomplete: ")
    assert CliRunner().invoke(main, ["profile", "nowhere"]).exit_code == 3
