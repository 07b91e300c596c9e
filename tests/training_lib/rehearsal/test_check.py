"""The answers that need the whole rehearsal: how the script ended, the first losses, and the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.training_lib.local.verdicts import issue
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run.check import Answer, Outcome, ProcessReport, StepDigest
from trackside.contracts.run.exit_code import NOT_JUDGED
from trackside.contracts.run_layout import check_key
from trackside.contracts.verdict import Outcome as VerdictOutcome
from trackside.contracts.verdict import Severity, State
from trackside.environment import RehearsalEnvironment
from trackside.local.run import LocalRun, LocalRunResult
from trackside.rehearsal.check import (
    CheckResult,
    answer_of_loss,
    answer_of_ranks,
    answer_of_script,
    checked,
    read_reports,
    rehearsed,
    what_is_high,
)
from trackside.runs.rule_state import RuleState, RuleStatus

CLEAN = VerdictOutcome.CLEAN


def rank(
    number: int, parameters: Sequence[str], batches: Sequence[str] = (), *, sharded: bool = False
) -> ProcessReport:
    given = list(batches) or [f"batch {number}.{step}" for step in range(len(parameters))]
    digests = [StepDigest(step, *pair) for step, pair in enumerate(zip(parameters, given, strict=True), 1)]
    return ProcessReport(f"worker_{number}", len(digests), 2, is_sharded=sharded, digests=tuple(digests))


@pytest.mark.parametrize(
    ("reports", "outcome", "observed"),
    [
        pytest.param([], Outcome.DOES_NOT_APPLY, "one process", id="no-report"),
        pytest.param([ProcessReport("worker_0", 3)], Outcome.DOES_NOT_APPLY, "one process", id="one-process"),
        pytest.param([rank(0, "abc"), rank(1, "abc")], Outcome.OK, "3 steps", id="agree"),
        pytest.param([rank(0, "abcd"), rank(1, "abc")], Outcome.OK, "3 steps", id="one-is-a-step-ahead"),
        pytest.param([rank(0, "abc"), rank(1, "abx")], Outcome.FAULT, "from step 3 on", id="apart"),
        pytest.param([rank(0, "abc", "123"), rank(1, "abc", "123")], Outcome.FAULT, "same batches", id="same-data"),
        pytest.param([rank(0, "abc", "123"), rank(1, "abc", "124")], Outcome.OK, "3 steps", id="a-batch-in-common"),
        pytest.param([rank(0, "ab", ["", ""]), rank(1, "ab", ["", ""])], Outcome.OK, "2 steps", id="no-batch-known"),
        pytest.param([rank(0, "abc")], Outcome.NOT_TRIED, "1 of 2 ranks", id="one-is-missing"),
        pytest.param([rank(0, "ab", sharded=True), rank(1, "xy")], Outcome.NOT_TRIED, "sharded", id="sharded"),
        pytest.param([rank(0, ""), rank(1, "")], Outcome.NOT_TRIED, "no step", id="no-step"),
    ],
)
def test_ranks(reports: list[ProcessReport], outcome: Outcome, observed: str) -> None:
    found = answer_of_ranks(reports)
    assert (found.outcome, observed in found.observed) == (outcome, True), found


def result(folder: Path, status: int = 0) -> LocalRunResult:
    return LocalRunResult(folder, status, None, (), (), (), "", "no step was made.")


@pytest.mark.parametrize(
    ("status", "report", "outcome", "observed"),
    [
        pytest.param(0, ProcessReport("worker_0", 20, is_done=True), Outcome.OK, "20 steps", id="whole"),
        pytest.param(
            1, ProcessReport("worker_0", 1, is_done=True, is_cut=True), Outcome.OK, "1 step made", id="ended-by-us"
        ),
        pytest.param(
            1, ProcessReport("worker_0", 3, is_done=True), Outcome.FAULT, "code 1", id="fails-behind-its-training"
        ),
        pytest.param(
            -15, ProcessReport("worker_0", 20), Outcome.NOT_TRIED, "while the probes", id="stopped-in-a-probe"
        ),
        pytest.param(3, None, Outcome.FAULT, "code 3", id="failed"),
        pytest.param(-9, None, Outcome.FAULT, "signal 9", id="killed"),
        pytest.param(0, None, Outcome.NOT_TRIED, "no step", id="no-step"),
        pytest.param(
            0,
            ProcessReport("worker_0", 0, is_done=True, unused_gradients=20),
            Outcome.FAULT,
            "cleared 20 times, and no optimizer made a step",
            id="gradients-that-nothing-uses",
        ),
    ],
)
def test_script(tmp_path: Path, status: int, report: ProcessReport | None, outcome: Outcome, observed: str) -> None:
    found = answer_of_script(result(tmp_path, status), [report] if report else [])
    assert (found.outcome, observed in found.observed) == (outcome, True), found


def test_reads_whole_reports_only(tmp_path: Path) -> None:
    report = ProcessReport("worker_1", 2)
    for worker, text in (("worker_1", report.to_json()), ("worker_0", "{")):
        path = tmp_path / check_key(worker)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert read_reports(tmp_path) == (report,)
    assert read_reports(tmp_path / "nowhere") == ()


def test_no_loss_is_no_answer(tmp_path: Path) -> None:
    assert answer_of_loss(tmp_path, now=0.0).outcome is Outcome.NOT_TRIED


@pytest.mark.parametrize(
    ("outcome", "severity", "fail_on", "code"),
    [
        pytest.param(Outcome.OK, None, Severity.WARNING, 0, id="fine"),
        pytest.param(Outcome.NOT_TRIED, None, Severity.WARNING, NOT_JUDGED, id="nothing-tried"),
        pytest.param(Outcome.NOT_TRIED, None, None, NOT_JUDGED, id="nothing-tried-and-any-issue-may-be"),
        pytest.param(Outcome.NOT_TRIED, Severity.WARNING, Severity.WARNING, 1, id="nothing-tried-and-a-warning"),
        pytest.param(Outcome.OK, Severity.INFO, Severity.WARNING, 0, id="a-remark"),
        pytest.param(Outcome.OK, Severity.WARNING, Severity.WARNING, 1, id="a-warning"),
        pytest.param(Outcome.OK, Severity.WARNING, Severity.CRITICAL, 0, id="a-warning-that-may-be"),
        pytest.param(Outcome.OK, Severity.CRITICAL, Severity.CRITICAL, 1, id="a-critical-issue"),
        pytest.param(Outcome.OK, Severity.CRITICAL, None, 0, id="any-issue-may-be"),
        pytest.param(Outcome.FAULT, None, None, 1, id="a-fault"),
    ],
)
def test_exit_code(
    tmp_path: Path, outcome: Outcome, severity: Severity | None, fail_on: Severity | None, code: int
) -> None:
    issues = (issue(severity=severity),) if severity else ()
    answers = (Answer("a", outcome),)
    assert CheckResult(result(tmp_path), 20, answers, issues, fail_on=fail_on).exit_code == code


FINE = Answer("evaluation-repeats", Outcome.OK)
RUNS = Answer("script-runs", Outcome.OK, "3 steps made")
LACKS = Answer("loss-at-the-start", Outcome.NOT_TRIED, "no loss was recorded")
JUDGED = (RuleStatus("overfit", "overfit", RuleState.OK, "", judged=5, judged_through=40, verdict=None),)
TOO_FEW = (RuleStatus("overfit", "overfit", RuleState.NOT_ENOUGH_DATA, "", judged=1, judged_through=0, verdict=None),)


@pytest.mark.parametrize(
    ("answers", "rules", "problems", "why"),
    [
        pytest.param((RUNS, FINE), JUDGED, ("", ""), "", id="both"),
        pytest.param((RUNS, LACKS), JUDGED, ("", ""), "", id="rules-alone"),
        pytest.param((RUNS, FINE), TOO_FEW, ("", ""), "", id="probes-alone"),
        pytest.param((RUNS, LACKS), TOO_FEW, ("", ""), "too little for any rule", id="a-script-that-runs-is-no-answer"),
        pytest.param((LACKS,), (), ("", "backward was never called."), "was never called", id="nothing-was-captured"),
        pytest.param((RUNS, FINE), JUDGED, ("the evaluator crashed.", ""), "crashed", id="the-evaluator-crashed"),
    ],
)
def test_a_rehearsal_that_judged_nothing_does_not_pass(
    tmp_path: Path, answers: tuple[Answer, ...], rules: tuple[RuleStatus, ...], problems: tuple[str, str], why: str
) -> None:
    evaluator, capture = problems
    ended = replace(result(tmp_path), rules=rules, evaluator_problem=evaluator, capture_problem=capture)
    found = CheckResult(ended, 3, answers, ())
    assert (why in found.not_judged, bool(found.not_judged)) == (True, bool(why)), found.not_judged
    assert found.exit_code == (NOT_JUDGED if why else 0)


@pytest.mark.parametrize(
    ("state", "standing", "recovered"),
    [
        pytest.param(State.OPENED, 1, 0, id="stands"),
        pytest.param(State.RECOVERED, 0, 1, id="has-recovered"),
    ],
)
def test_the_issues_are_those_that_stand_at_the_end(
    tmp_path: Path, state: State, standing: int, recovered: int
) -> None:
    opened = issue(severity=Severity.WARNING)
    later = replace(opened, state=state, step=40, outcome=opened.outcome if state is State.OPENED else CLEAN)
    ended = replace(result(tmp_path), verdicts=(opened, later))
    found = checked(ended, now=0.0)
    assert (len(found.issues), found.recovered, len(found.failing)) == (standing, recovered, standing)


@pytest.mark.parametrize(
    ("losses", "guess", "words"),
    [
        pytest.param([4.4, 9.0, 30.7], 3.4, "has risen to more than 4 times", id="explodes"),
        pytest.param([30.0, 29.0, 28.0], 3.4, "is still more than 4 times", id="never-came-down"),
        pytest.param([60.0, 40.0, 30.0], 3.4, "", id="is-high-and-on-its-way-down"),
        pytest.param([2.3, 1040.0, 2.4], 2.3, "has jumped to 1040", id="jumps-and-stays-at-guessing"),
        pytest.param([2.3, 1040.0, 0.4], 2.3, "", id="jumps-and-learns"),
        pytest.param([40.0, 20.0, 5.0], 3.4, "", id="starts-high-and-comes-down"),
        pytest.param([2.3, 2.5, 2.4], 2.3, "", id="learns-nothing-yet"),
        pytest.param([2.3, 1.9, 1.2], 2.3, "", id="learns"),
    ],
)
def test_a_loss_that_is_too_high(losses: list[float], guess: float, words: str) -> None:
    found = what_is_high(np.array(losses), losses[-1], guess)
    assert (words in found, bool(found)) == (True, bool(words))


def test_a_rehearsal_saves_what_the_first_loss_is_compared_with(tmp_path: Path) -> None:
    capture = CaptureRequest((CollectionRequest("weights"), CollectionRequest("losses")))
    run = LocalRun(("python",), tmp_path, RuleRequest(()), capture, {"A": "b"})
    settings = RehearsalEnvironment(steps=7, seconds=3.5, probe_seconds=4.0)
    found = rehearsed(run, settings)
    saved = {each.name: each.schedule.save_interval for each in found.capture.collections}
    assert (saved["losses"], saved["labels"], set(saved)) == (1, 1, {"weights", "losses", "labels"})
    assert found.capture.statistics.budget == 1
    assert RehearsalEnvironment.read(found.environment) == settings
    assert found.is_output_on_stderr
