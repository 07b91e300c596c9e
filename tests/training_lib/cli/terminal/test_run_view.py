"""What `trackside run` says before the training: where the run lies, what judges it, what a rule lacks."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
from pathlib import Path

import pytest

from trackside.cli.terminal.run_view import RunView
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.local.preflight import RulePlan
from trackside.local.rule_state import RuleState, RuleStatus
from trackside.local.run import LocalRunResult

LONG = "similar-across-runs cannot judge anything: set other_trials to the runs that it shall compare with."


def plan(*names: str, notes: tuple[str, ...] = ()) -> RulePlan:
    return RulePlan(RuleRequest(tuple([RuleConfiguration(name) for name in names])), CaptureRequest(()), notes)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        pytest.param(plan("a", "b"), "rules a, b", id="few"),
        pytest.param(plan(*"abcde"), "rules 5, in rule-request.json of the run", id="many"),
        pytest.param(plan("a", "b", notes=("a x.",)), "rules a, b; ready: 1 of 2", id="one-lacks"),
        pytest.param(
            plan(*"abcde", notes=("a x.",)),
            "rules 5, in rule-request.json of the run; ready: 4 of 5",
            id="of-5",
        ),
    ],
)
def test_the_beginning(rules: RulePlan, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    RunView(color=False).begin("runs/a", rules)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["trackside: run runs/a", f"trackside: {said}"]
    assert lines[2:] == [f"trackside: warning: {note}" for note in rules.notes]


def result(steps: tuple[int, ...], judged_through: int) -> LocalRunResult:
    status = RuleStatus("a", "a", RuleState.OK, "fine", judged=3, judged_through=judged_through)
    return LocalRunResult(
        folder=Path("runs/a"),
        status=0,
        stopped_for=None,
        verdicts=(),
        rules=(status,),
        steps=steps,
        evaluator_problem="",
        capture_problem="",
    )


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        pytest.param(result((0, 10), 12), "2 saved, step 0 to 10; judged through step 12", id="saved-and-judged"),
        pytest.param(result((0, 10), -1), "2 saved, step 0 to 10; none judged", id="saved"),
        pytest.param(result((), 12), "none saved; by statistics judged through step 12", id="statistics"),
        pytest.param(result((), -1), "none saved", id="nothing"),
    ],
)
def test_the_end_says_what_was_saved(ended: LocalRunResult, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    RunView(color=False).end(ended, "runs/a", exit_code=0, fail_on="critical")
    assert f"steps  {said}" in capsys.readouterr().err.splitlines()


def test_in_a_log_a_note_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    RunView(color=False).note(LONG)
    assert capsys.readouterr().err == f"trackside: {LONG}\n"


def test_on_a_terminal_it_is_wrapped_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    with os.fdopen(writer, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        RunView(color=False).note(LONG)
        terminal.flush()
        said = b""
        while not said.endswith(b"with.\r\n") and select.select([reader], [], [], 10)[0]:
            said += os.read(reader, 4096)  # a terminal gives what there is, which may be a part
    os.close(reader)
    monkeypatch.undo()
    assert said.decode().split("\r\n") == [
        "trackside: similar-across-runs cannot judge anything: set other_trials to the",
        "           runs that it shall compare with.",
        "",
    ]
