"""Events of a run as lines of JSON: each problem once for each change, and no failure that disturbs the run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.training_lib.local.verdicts import issue
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.issue_group import IssueGroup, group_of_one
from trackside.contracts.verdict import Severity
from trackside.local.event_lines import EventLines, checked_target
from trackside.local.run import LocalRunResult
from trackside.local.run_now import RunNow

WARNING = group_of_one(issue(severity=Severity.WARNING))


class Shown:
    """An observer that keeps what it shows."""

    shows_progress = True

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.issues: list[IssueGroup] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def hint(self, text: str) -> None:
        self.notes.append(text)

    def detail(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, now: RunNow) -> None:
        self.notes.append(str(now.steps))

    def issue(self, group: IssueGroup) -> None:
        self.issues.append(group)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_change_of_a_problem_is_one_line(tmp_path: Path) -> None:
    shown, target = Shown(), tmp_path / "events.jsonl"
    lines = EventLines(shown, str(target), run=str(tmp_path / "run"), clock=lambda: 7.0)
    lines.begin(rules=49)
    critical = IssueGroup((replace(WARNING.lead, severity=Severity.CRITICAL),), {})
    for group in (WARNING, WARNING, critical, critical):
        lines.issue(group)
    lines.note("Stopping the training.")
    lines.hint("a hint")
    lines.progress(RunNow(3, 1.0, 49, 1))
    lines.end(LocalRunResult(tmp_path / "run", -15, None, (), (), (), "", "", was_stopped=True), exit_code=1)
    found = lines_of(target)
    assert [each["event"] for each in found] == ["start", "problem", "problem", "note", "end"]
    assert [each["severity"] for each in found if each["event"] == "problem"] == ["warning", "critical"]
    assert found[1]["repair"]["observed"] == 3.1e-12
    assert (found[-1]["exit_code"], found[-1]["training_exit_code"], found[-1]["stopped"]) == (1, 143, True)
    assert {each["at"] for each in found} == {7.0}
    assert (len(shown.issues), shown.notes) == (4, ["Stopping the training.", "a hint", "3"])


def test_a_second_run_adds_its_lines(tmp_path: Path) -> None:
    for _ in range(2):
        EventLines(Shown(), str(tmp_path / "events.jsonl"), run="run").begin(rules=1)
    assert len(lines_of(tmp_path / "events.jsonl")) == 2


def test_a_failure_is_shown_once(tmp_path: Path) -> None:
    shown, folder = Shown(), tmp_path / "gone"
    folder.mkdir()
    lines = EventLines(shown, str(folder / "events.jsonl"), run="run")
    lines.begin(rules=1)
    (folder / "events.jsonl").unlink()
    folder.rmdir()
    for _ in range(3):
        lines.note("goes on")
    assert [text for text in shown.notes if "events.jsonl" in text] == [
        f"--json-lines {folder / 'events.jsonl'}: No such file or directory. No more lines are written."
    ]
    assert shown.notes.count("goes on") == 3


def test_a_target_that_cannot_be_written_is_an_error_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written: No such file or directory"):
        checked_target(str(tmp_path / "nowhere" / "events.jsonl"))
    assert [checked_target(target) for target in (None, "-", str(tmp_path / "new.jsonl"))][:2] == [None, "-"]


def test_lines_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    EventLines(Shown(), "-", run="run", clock=lambda: 7.0).begin(rules=1)
    captured = capsys.readouterr()
    assert (json.loads(captured.err)["event"], captured.out) == ("start", "")
