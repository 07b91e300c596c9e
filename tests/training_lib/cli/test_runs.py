from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.training_lib.local.verdicts import issue
from trackside.cli import main
from trackside.contracts.verdict import Outcome
from trackside.local.run_folder import RUNS, RunRecord, write_record


@pytest.fixture(autouse=True)
def _work_in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_run(name: str, record: RunRecord) -> None:
    (RUNS / name / "rule-output").mkdir(parents=True)
    (RUNS / name / "rule-output" / "verdicts.jsonl").write_text(issue().to_json() + "\n")
    write_record(RUNS / name, record)


def test_runs_are_listed_newest_first() -> None:
    write_run("20260101-000000-a-0000", RunRecord(("python", "a.py"), 1.0, ended_at=2.0, status=0))
    write_run("20260102-000000-b-0000", RunRecord(("python", "b.py"), 3.0, 4.0, -15, stopped_by_trackside=True))
    lines = CliRunner().invoke(main, ["runs"]).stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["20260102-000000-b-0000", "stopped"],
        ["20260101-000000-a-0000", "finished"],
    ]
    assert all(line.endswith("1 (critical)") for line in lines[1:])


def test_json_is_one_document_with_a_version() -> None:
    write_run("a", RunRecord(("python", "a.py"), 1.0, ended_at=2.0, status=7))
    document = json.loads(CliRunner().invoke(main, ["runs", "--format", "json"]).stdout)
    assert document == {
        "schema_version": 1,
        "runs": [
            {
                "name": "a",
                "state": "failed",
                "started_at": 1.0,
                "command": ["python", "a.py"],
                "steps_saved": 0,
                "issues": 1,
                "worst_severity": "critical",
                "judged": True,
            }
        ],
    }
    assert json.loads(CliRunner().invoke(main, ["runs", "--format", "jsonl"]).stdout)["name"] == "a"


@pytest.mark.parametrize(
    ("outcomes", "shown"),
    [
        pytest.param((), "not judged", id="no verdict"),
        pytest.param((Outcome.NOT_EVALUATED,), "not judged", id="no rule could answer"),
        pytest.param((Outcome.CLEAN, Outcome.NOT_EVALUATED), "none", id="one rule is content"),
    ],
)
def test_a_run_that_nobody_could_judge_is_not_called_free_of_issues(outcomes: tuple[Outcome, ...], shown: str) -> None:
    write_run("a", RunRecord(("python", "a.py"), 1.0, ended_at=2.0, status=0))
    lines = [replace(issue(), outcome=outcome, configuration_name=outcome.value).to_json() for outcome in outcomes]
    (RUNS / "a" / "rule-output" / "verdicts.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert CliRunner().invoke(main, ["runs"]).stdout.splitlines()[-1].split("  ")[-1].strip() == shown


def test_without_a_run_stdout_stays_empty_and_stderr_says_how_to_begin() -> None:
    result = CliRunner().invoke(main, ["runs"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "trackside run -- python train.py" in result.stderr


def test_without_a_run_json_is_still_a_document() -> None:
    assert json.loads(CliRunner().invoke(main, ["runs", "--format", "json"]).stdout)["runs"] == []


def test_a_folder_that_is_no_run_is_passed_over() -> None:
    (RUNS / "notes").mkdir(parents=True)
    assert CliRunner().invoke(main, ["runs", "--format", "jsonl"]).stdout == ""
