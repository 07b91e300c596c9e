"""Several runs side by side, from files as a training leaves them."""

from __future__ import annotations

from pathlib import Path

from tests.training_lib.views.dashboard.runs import ISSUE, LOSS, write_run
from trackside.contracts.verdict import Severity
from trackside.runs.recorded_run import read_run
from trackside.runs.run_folder import RunRecord
from trackside.trial.trial import open_trial
from trackside.views.comparing.comparison import ComparedRun
from trackside.views.comparing.side_by_side import side_by_side


def opened(folder: Path, *command: str) -> ComparedRun:
    record = RunRecord(command=command, started_at=1.0)
    return ComparedRun(read_run(str(folder)), open_trial(str(folder)), record)


def test_each_run_has_its_verdict_its_loss_and_what_differs(tmp_path: Path) -> None:
    write_run(tmp_path / "a", verdicts=(ISSUE,))
    write_run(tmp_path / "b", slope=0.5, broken_at=None)
    write_run(tmp_path / "c", slope=0.5, steps=100)
    found = side_by_side([opened(tmp_path / name, "train", f"--{name}") for name in "abc"], now=2e9)
    assert [run.name for run in found.runs] == ["a", "b", "c"]
    assert [run.worst for run in found.runs] == [Severity.CRITICAL, None, None]
    assert [run.steps for run in found.runs] == [400, 400, 100]
    assert found.runs[0].issues == {"vanishing-gradient": ISSUE.since_step}
    ((loss, lines),) = found.losses
    assert loss == LOSS
    assert [(place, len(x)) for place, x, _ in lines] == [(0, 399), (1, 400), (2, 100)]
    assert found.facts == (("command", ("train --a", "train --b", "train --c")),)
