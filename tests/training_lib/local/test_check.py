"""The answers that need the whole rehearsal: how the script ended, the first losses, and the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.training_lib.local.verdicts import issue
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest
from trackside.contracts.check import Answer, Outcome, ProcessReport, StepDigest
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import check_key
from trackside.contracts.verdict import Severity
from trackside.environment import RehearsalEnvironment
from trackside.local.check import (
    CheckResult,
    answer_of_loss,
    answer_of_ranks,
    answer_of_script,
    read_reports,
    rehearsed,
)
from trackside.local.run import LocalRun, LocalRunResult


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
        pytest.param(1, ProcessReport("worker_0", 1, is_done=True), Outcome.OK, "1 step made", id="ended-by-us"),
        pytest.param(
            -15, ProcessReport("worker_0", 20), Outcome.NOT_TRIED, "while the probes", id="stopped-in-a-probe"
        ),
        pytest.param(3, None, Outcome.FAULT, "code 3", id="failed"),
        pytest.param(-9, None, Outcome.FAULT, "signal 9", id="killed"),
        pytest.param(0, None, Outcome.NOT_TRIED, "no step", id="no-step"),
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
    ("outcome", "severity", "code"),
    [
        pytest.param(Outcome.OK, None, 0, id="fine"),
        pytest.param(Outcome.NOT_TRIED, None, 0, id="not-tried"),
        pytest.param(Outcome.OK, Severity.WARNING, 0, id="a-warning"),
        pytest.param(Outcome.OK, Severity.CRITICAL, 1, id="a-critical-issue"),
        pytest.param(Outcome.FAULT, None, 1, id="a-fault"),
    ],
)
def test_exit_code(tmp_path: Path, outcome: Outcome, severity: Severity | None, code: int) -> None:
    issues = (issue(severity=severity),) if severity else ()
    assert CheckResult(result(tmp_path), 20, (Answer("a", outcome),), issues).exit_code == code


def test_a_rehearsal_saves_what_the_first_loss_is_compared_with(tmp_path: Path) -> None:
    capture = CaptureRequest((CollectionRequest("weights"), CollectionRequest("losses")))
    run = LocalRun(("python",), tmp_path, RuleRequest(()), capture, {"A": "b"})
    settings = RehearsalEnvironment(steps=7, seconds=3.5, probe_seconds=4.0)
    found = rehearsed(run, settings)
    saved = {each.name: each.schedule.save_interval for each in found.capture.collections}
    assert (saved["losses"], saved["labels"], set(saved)) == (1, 1, {"weights", "losses", "labels"})
    assert RehearsalEnvironment.read(found.environment) == settings
    assert found.is_output_on_stderr
