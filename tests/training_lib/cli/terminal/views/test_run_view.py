"""What `trackside run` says before the training: where the run lies, what judges it, what a rule lacks."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training_lib.local.verdicts import issue, no_issue
from trackside.choosing.preflight import RulePlan
from trackside.cli.terminal.views.run_view import EMPTY_LINE, RunView, Verbosity
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.cause import Cause, Suspicion
from trackside.contracts.issue_group import group_of_one, issue_groups
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.learning import Learning
from trackside.contracts.verdict import Outcome, Severity, Verdict
from trackside.evaluation.results.verdicts import Moment, recovered
from trackside.local.run import LocalRunResult
from trackside.runs.rule_state import RuleState, RuleStatus
from trackside.runs.run_folder import RUNS

LONG = "similar-across-runs cannot judge anything: set other_trials to the runs that it shall compare with."


def plan(*names: str, notes: tuple[str, ...] = ()) -> RulePlan:
    return RulePlan(RuleRequest(tuple([RuleConfiguration(name) for name in names])), CaptureRequest(()), notes)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        pytest.param(plan("a"), "a judges runs/a", id="one"),
        pytest.param(plan("a", "b"), "a, b judge runs/a", id="few"),
        pytest.param(plan(*"abcde"), "5 rules judge runs/a", id="many"),
        pytest.param(plan("a", "b", notes=("a x.",)), "a, b judge runs/a", id="one-lacks"),
    ],
)
def test_the_beginning_is_one_line(rules: RulePlan, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    RunView(color=False).begin("runs/a", rules)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"trackside: {said}", *(f"trackside: warning: {note}" for note in rules.notes)]


def result(
    *rules: RuleStatus,
    status: int = 0,
    verdicts: tuple[Verdict, ...] = (),
    evaluator: str = "",
    capture: str = "",
    learning: Learning = Learning(),  # noqa: B008  frozen
) -> LocalRunResult:
    return LocalRunResult(
        folder=Path("runs/a"),
        status=status,
        stopped_for=None,
        verdicts=verdicts,
        rules=rules,
        steps=(0, 10),
        evaluator_problem=evaluator,
        capture_problem=capture,
        training_steps=1840,
        learning=learning,
    )


def rule(name: str, state: RuleState) -> RuleStatus:
    verdict = no_issue(name, outcome=Outcome.NOT_EVALUATED) if state is RuleState.NOT_ENOUGH_DATA else None
    return RuleStatus(name, name, state, "because", judged=3, judged_through=12, verdict=verdict)


FINE = tuple([rule(f"r{number}", RuleState.OK) for number in range(19)])
LACKING = (rule("overfit", RuleState.NOT_ENOUGH_DATA), rule("overtraining", RuleState.NOT_ENOUGH_DATA))
ELSEWHERE = (rule("dead-relu", RuleState.NOT_APPLICABLE), rule("replicas-differ", RuleState.NOT_APPLICABLE))
WRONG = issue("gradients-not-cleared", severity=Severity.CRITICAL)
ALSO = replace(issue("loss-not-decreasing", severity=Severity.WARNING), group=WRONG.group)
RUINED = replace(WRONG, harm="the loss is 4")
BETTER = recovered(RUINED, Moment("digits", 60, 0.0))
LEVEL = Learning(level="the loss ended at 1.8, and a constant answer costs 0.685")
WARNED = issue("vanishing-gradient", severity=Severity.WARNING)
RUN = f"{RUNS}/20261122-075818-train-5806"


@pytest.mark.parametrize(
    ("ended", "exit_code", "lines"),
    [
        pytest.param(
            result(*FINE, *LACKING, *ELSEWHERE),
            0,
            ["✔ no issue: 19 rules over 1,840 steps; 2 lacked data, 2 do not apply; trackside findings latest"],
            id="healthy",
        ),
        pytest.param(
            result(*FINE, learning=Learning(skipped="12 steps were skipped by GradScaler")),
            0,
            [
                ("✔ no issue: 19 rules over 1,840 steps; 12 steps were skipped by GradScaler; "
                "trackside findings latest")
            ],
            id="skipped-steps",
        ),
        pytest.param(
            result(FINE[0], status=3),
            3,
            ["✔ no issue before the training ended with code 3: 1 rule over 1,840 steps; trackside findings latest"],
            id="crashed",
        ),
        pytest.param(
            result(FINE[0], status=-9),
            137,
            [
                ("✔ no issue before SIGKILL ended the training (exit code 137): 1 rule over 1,840 steps; "
                "trackside findings latest")
            ],
            id="killed",
        ),
        pytest.param(
            result(*FINE[:4], *LACKING, *ELSEWHERE, rule("data-leakage", RuleState.NOT_ENOUGH_DATA)),
            0,
            [
                ("◌ hardly judged: 4 rules over 1,840 steps found nothing; 3 lacked data, 2 do not apply; "
                "trackside findings latest")
            ],
            id="few-rules",
        ),
        pytest.param(
            result(
                *FINE[:1], *ELSEWHERE, replace(LACKING[0], detail="No loss was recorded: the training evaluates none.")
            ),
            0,
            [
                ("◌ hardly judged, as no loss was recorded: 1 rule over 1,840 steps found nothing; 1 lacked data, "
                "2 do not apply; trackside findings latest")
            ],
            id="no-loss",
        ),
        pytest.param(
            result(*FINE[:2], *LACKING), 0,
            ["✔ no issue: 2 rules over 1,840 steps; 2 lacked data; trackside findings latest"],
            id="few-rules-of-few",
        ),
        pytest.param(
            result(*LACKING),
            0,
            [
                ("◌ not judged: too little data for every rule that applies; 2 lacked data; "
                "trackside findings latest")
            ],
            id="too-short",
        ),
        pytest.param(
            result(*FINE, verdicts=(WRONG, ALSO)),
            1,
            [
                "✖ gradients-not-cleared: critical, since step 4; also loss-not-decreasing",
                ("1 problem; 19 rules over 1,840 steps found nothing; exit code 1 (an issue reached --fail-on critical)"
                "; trackside findings latest, trackside serve"),
            ],
            id="one-fault-in-two-rules",
        ),
        pytest.param(
            result(*FINE, evaluator="No space left on device in runs/a; free some"),
            0,
            [
                ("◌ not judged to the end: No space left on device in runs/a; free some; "
                "trackside rules run runs/a; 19 rules over 1,840 steps found nothing; trackside findings latest")
            ],
            id="a-full-disk",
        ),
        pytest.param(
            result(*FINE, learning=LEVEL),
            0,
            [
                ("◌ no rule found an issue: 19 rules over 1,840 steps; the loss ended at 1.8, and a constant answer "
                "costs 0.685; trackside findings latest")
            ],
            id="no-better-than-a-constant-answer",
        ),
        pytest.param(
            result(*FINE, verdicts=(RUINED, BETTER), learning=LEVEL),
            1,
            [
                ("◌ no rule found an issue: 19 rules over 1,840 steps; the loss ended at 1.8, and a constant answer "
                "costs 0.685; exit code 1 (a critical issue came before, and the training did not get over it); "
                "trackside findings latest")
            ],
            id="ruined",
        ),
        pytest.param(
            result(*LACKING, status=1, capture="ImportError ended it before the first optimizer step"),
            1,
            ["◌ not judged: nothing was captured: ImportError ended it before the first optimizer step"],
            id="nothing-captured",
        ),
    ],
)  # fmt: skip
def test_the_end(ended: LocalRunResult, exit_code: int, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    RunView(color=False).end(ended, RUN, exit_code=exit_code, fail_on="critical")
    assert capsys.readouterr().err.splitlines() == [f"trackside: {line}" for line in lines]


@pytest.mark.parametrize(
    ("ended", "is_silent"),
    [
        pytest.param(result(*FINE), True, id="healthy"),
        pytest.param(result(*FINE, learning=LEVEL), False, id="learned-nothing"),
        pytest.param(result(*FINE, status=3), False, id="crashed"),
        pytest.param(result(*FINE, rule("bad", RuleState.ERROR)), False, id="a-rule-failed"),
        pytest.param(result(capture="why"), False, id="nothing-captured"),
        pytest.param(result(rule("a", RuleState.ISSUE), verdicts=(WRONG,)), False, id="a-problem"),
    ],
)
def test_quiet_shows_problems_only(ended: LocalRunResult, is_silent: bool, capsys: pytest.CaptureFixture[str]) -> None:
    view = RunView(color=False, verbosity=Verbosity.QUIET)
    view.begin("runs/a", plan("a"))
    view.hint("nothing captured yet")
    view.end(ended, RUN, exit_code=ended.status, fail_on="critical")
    assert (capsys.readouterr().err == "") is is_silent


def test_verbose_has_a_line_for_each_rule_that_needs_a_look(capsys: pytest.CaptureFixture[str]) -> None:
    view = RunView(color=False, verbosity=Verbosity.VERBOSE)
    view.detail("SIGUSR1 passed on to the training.")
    view.end(result(*FINE, *LACKING), RUN, exit_code=0, fail_on="critical")
    shown = capsys.readouterr().err
    assert "trackside: SIGUSR1 passed on to the training.\n" in shown
    assert "◌ Not enough data  overfit       because\n" in shown
    assert "19 rules" in shown


GRAVER = replace(issue("dead-relu", severity=Severity.CRITICAL), group=WARNED.group, harm="the loss is nan")
CAUSED = replace(WARNED, suspicions=(Suspicion(Cause.LEARNING_RATE_TOO_HIGH),))


@pytest.mark.parametrize(
    ("later", "lines"),
    [
        pytest.param((WARNED,), [], id="the-same"),
        pytest.param((WARNED, replace(ALSO, group=WARNED.group)), [], id="another-rule-found-it-too"),
        pytest.param(
            (WARNED, GRAVER),
            ["trackside: ✖ dead-relu: critical, since step 4; also vanishing-gradient; the loss is nan"],
            id="graver",
        ),
        pytest.param(
            (CAUSED,),
            ["trackside: ▲ vanishing-gradient: warning, since step 4; likely now: the learning rate is too high"],
            id="another-cause",
        ),
    ],
)
def test_a_problem_has_one_card_and_a_line_for_what_is_news(
    later: tuple[Verdict, ...], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    view = RunView(color=False)
    view.issue(group_of_one(WARNED))
    assert "what to do" in capsys.readouterr().err
    (group,) = issue_groups(later)
    for _ in range(2):
        view.issue(group)
    assert capsys.readouterr().err.splitlines() == lines


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
        while not said.endswith(b"with.\r\n\r\n") and select.select([reader], [], [], 10)[0]:
            said += os.read(reader, 4096)  # a terminal gives what there is, which may be a part
    os.close(reader)
    monkeypatch.undo()
    assert said.decode().removeprefix(EMPTY_LINE).split("\r\n") == [
        "trackside: similar-across-runs cannot judge anything: set other_trials to the",
        "           runs that it shall compare with.",
        "",
        "",
    ]
