"""Real processes that are ended and started again, or not: whoever ends them, and whatever fails."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import wait_until
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run.rescue import RescueState
from trackside.contracts.run_layout import TENSORS, checkpoints_key
from trackside.environment import RescueEnvironment, inherited
from trackside.local.training_process import TrainingProcess
from trackside.records.checkpoints_file import encode_checkpoints
from trackside.rescue.restarting import restarts
from trackside.rescue.restarting.restart_folder import RestartFolder
from trackside.rescue.restarting.restarted_training import RestartedTraining
from trackside.storage.open_store import open_store

_SCRIPT = """
import os, pathlib, signal, sys, time
from trackside.contracts.run.restart import Met, Report
folder = pathlib.Path(sys.argv[1])
(folder / "starts").open("a").write(os.environ.get("TRACKSIDE_RESUME_FROM", "") + "\\n")
if "TRACKSIDE_RESUME_FROM" in os.environ:
    sys.exit(3)
report = folder / "run" / "restart" / "worker_0.json"
report.parent.mkdir(exist_ok=True)
report.write_text(Report(Met.FAULT, first_step=250, at_step=260).to_json())
THEN
"""
_WAITS = "time.sleep(3600)"
_IS_DEAF = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {_WAITS}"


class Training:
    """A command that reports a fault, and does something then."""

    def __init__(self, folder: Path, then: str) -> None:
        self.folder = folder
        self.good = folder / "step_200.pt"
        for step in (200, 300):
            (folder / f"step_{step}.pt").write_text("weights")
        known = [Checkpoint(step - 1, str(folder / f"step_{step}.pt")) for step in (200, 300)]
        open_store(str(folder / "run" / TENSORS)).put(checkpoints_key("worker_0"), encode_checkpoints(known))
        self.files = RestartFolder(folder / "run")
        script = folder / "script.py"
        script.write_text(_SCRIPT.replace("THEN", then))
        self._command = (sys.executable, str(script), str(folder))
        decisions = restarts.Restarts(
            self.files, RescueEnvironment(is_on=True, restarts=True), monotonic=time.monotonic
        )
        self.process = RestartedTraining(self._start, decisions, grace_seconds=0.2, monotonic=time.monotonic)

    def _start(self, more: dict[str, str]) -> TrainingProcess:
        return TrainingProcess(self._command, environment={**inherited(), **more}, shares_terminal=False)

    def reported(self) -> bool:
        return bool(self.files.reports())

    @property
    def starts(self) -> list[str]:
        return (self.folder / "starts").read_text().splitlines()

    def end(self) -> int | None:
        """Return the status of the command."""
        wait_until(lambda: self.process.poll() is not None)
        return self.process.poll()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "JUDGING_SECONDS", 0.0)


_THEN = {
    "waits": _WAITS,
    "does not listen": _IS_DEAF,
    "leaves another process": f"import subprocess; subprocess.Popen(['sleep', '3600']); {_WAITS}",
    "has ended": "pass",
    "has failed": "sys.exit(1)",
    "was killed": "os.kill(os.getpid(), 9)",
}  # fmt: skip


@pytest.mark.parametrize("then", _THEN.values(), ids=_THEN)
def test_it_is_ended_and_started_again_once(then: str, tmp_path: Path) -> None:
    training = Training(tmp_path, then)
    assert training.end() == 3
    assert training.starts == ["", str(training.good)]
    assert not (tmp_path / "step_300.pt").exists()
    assert not training.process.is_alive()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1], ids=["Ctrl-C", "SIGTERM", "a signal of a scheduler"]
)
def test_after_a_signal_of_the_user_nothing_is_started(number: signal.Signals, tmp_path: Path) -> None:
    training = Training(tmp_path, _WAITS)
    wait_until(training.reported)
    training.process.pass_on(number)
    assert training.end() in (-number, 1)  # Python ends with 1 at Ctrl-C
    assert training.starts == [""]
    assert (tmp_path / "step_300.pt").exists()


def test_a_stop_in_the_middle_starts_nothing(tmp_path: Path) -> None:
    training = Training(tmp_path, _IS_DEAF)
    wait_until(lambda: training.process.poll() is None and bool(training.files.record().tries))
    training.process.request_end()
    training.process.kill()
    assert training.end() == -signal.SIGKILL
    assert training.starts == [""]


_SPOILT: dict[str, tuple[Callable[[Path], object], RescueState]] = {
    "a fault without a checkpoint": (lambda folder: (folder / "step_200.pt").unlink(), RescueState.REFUSED),
    "a damaged list of checkpoints": (
        lambda folder: (folder / "run" / TENSORS / checkpoints_key("worker_0")).write_text("{"),
        RescueState.OFF,
    ),
}


@pytest.mark.parametrize(("spoil", "state"), _SPOILT.values(), ids=_SPOILT)
def test_without_a_place_to_go_back_to_it_goes_on(
    spoil: Callable[[Path], object], state: RescueState, tmp_path: Path
) -> None:
    go_on = f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)"
    training = Training(tmp_path, go_on)
    spoil(tmp_path)
    wait_until(lambda: training.process.poll() is None and training.files.record().state is state)
    (tmp_path / "go").touch()
    assert training.end() == 0
    assert training.starts == [""]


def test_checkpoints_that_cannot_be_moved_do_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(restarts, "move_aside", full)
    training = Training(tmp_path, _WAITS)
    assert training.end() == 3  # it was started again, and resumed as it could
    assert training.files.record().state is RescueState.OFF
    assert "No space" in training.files.record().reason
