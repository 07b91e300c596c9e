from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner
from moto import mock_aws

from tests.training_lib.local.verdicts import issue
from trackside.cli import main
from trackside.contracts.run.cluster_job import ClusterJob
from trackside.contracts.verdict import Outcome
from trackside.runs.run_folder import RUNS, RunRecord, write_record
from trackside.storage.s3 import S3Store
from trackside.testing.fake_trial import end_run, write_tensors


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


@pytest.mark.parametrize(
    ("name", "status", "header"),
    [
        pytest.param("20261128-214829-train-2e71", 1, "run state started saved issues", id="all-columns"),
        pytest.param("20261128-214829-train-vit-2e7a1", -11, "run state started issues", id="a-signal"),
        pytest.param("20261128-214829-train-vision-transformer-2e71", -11, "run state issues", id="a-long-name"),
    ],
)
def test_a_run_is_one_line_on_80_columns(name: str, status: int, header: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    now = time.time()
    write_run(name, RunRecord(("python", "a.py"), now, ended_at=now, status=status))
    lines = CliRunner().invoke(main, ["runs"]).stdout.splitlines()
    assert len(lines) == 2
    assert " ".join(lines[0].split()) == header
    assert max(map(len, lines)) <= 80
    assert ("failed (SIGSEGV)" in lines[1]) == (status < 0)


def test_json_is_one_document_with_a_version() -> None:
    write_run("a", RunRecord(("python", "a.py"), 1.0, ended_at=2.0, status=7))
    document = json.loads(CliRunner().invoke(main, ["runs", "--format", "json"]).stdout)
    assert document == {
        "schema_version": 1,
        "runs": [
            {
                "name": "a",
                "uri": str(Path(".trackside/runs/a").absolute()),
                "state": "failed",
                "started_at": 1.0,
                "command": ["python", "a.py"],
                "steps_saved": 0,
                "issues": 1,
                "recovered": 0,
                "worst_severity": "critical",
                "judged": True,
                "not_judged": "",
                "reservation": "",
                "exit_code": 7,
                "signal": None,
                "scheduler": None,
                "job": None,
                "node": None,
                "user": None,
                "array_index": None,
                "restarts": 0,
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


def test_csv_has_a_row_for_each_run() -> None:
    write_run("a", RunRecord(("python", "my script.py"), 1.0, ended_at=2.0, status=7))
    (row,) = csv.DictReader(io.StringIO(CliRunner().invoke(main, ["runs", "--format", "csv"]).stdout))
    assert row == {
        "name": "a",
        "uri": str(Path(".trackside/runs/a").absolute()),
        "state": "failed",
        "started_at": "1.0",
        "command": "python 'my script.py'",
        "steps_saved": "0",
        "issues": "1",
        "worst_severity": "critical",
        "judged": "true",
        "recovered": "0",
        "job": "",
        "node": "",
        "user": "",
    }


def test_the_job_of_a_run_is_shown_where_there_is_one() -> None:
    write_run("a", RunRecord(("python", "a.py"), 1.0, ended_at=2.0, status=7))
    assert "job" not in CliRunner().invoke(main, ["runs"]).stdout
    job = ClusterJob("slurm", "4711_7", name="digits", node="gpu[1-2]", user="ada", array_index=7, restarts=1)
    write_run("b", RunRecord(("python", "b.py"), 1.0, ended_at=2.0, status=0, job=job))
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(main, ["runs"]).stdout
    assert [line.split()[-1] for line in shown.splitlines()[:2]] == ["job", "4711_7"]
    row = json.loads(CliRunner().invoke(main, ["runs", "--format", "jsonl"]).stdout.splitlines()[0])
    assert (row["scheduler"], row["job"], row["node"], row["user"]) == ("slurm", "4711_7", "gpu[1-2]", "ada")
    assert (row["array_index"], row["restarts"]) == (7, 1)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        pytest.param(["--regex", "^b"], ["b2", "b1"], id="regex"),
        pytest.param([".trackside/runs"], ["b2", "b1", "a"], id="a folder"),
        pytest.param(["--regex", "x"], [], id="none"),
    ],
)
def test_which_runs(arguments: list[str], names: list[str]) -> None:
    for name in ("a", "b1", "b2"):
        write_run(name, RunRecord(("python", "a.py"), 1.0, ended_at=2.0, status=0))
    lines = CliRunner().invoke(main, ["runs", *arguments, "--format", "jsonl"]).stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == names


@pytest.mark.parametrize(
    ("where", "exit_code", "said"),
    [
        pytest.param("nowhere", 3, "There is no folder 'nowhere'", id="no folder"),
        pytest.param(".trackside/runs/a", 2, "trackside tensors .trackside/runs/a", id="a run"),
        pytest.param("gs://bucket", 2, "Use a folder or s3://", id="another cloud"),
        pytest.param(".trackside", 0, "No run lies right below .trackside", id="a folder without"),
    ],
)
def test_where_no_runs_are(where: str, exit_code: int, said: str) -> None:
    write_run("a", RunRecord(("python", "a.py"), 1.0, ended_at=2.0, status=0))
    result = CliRunner().invoke(main, ["runs", where])
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert said in result.stderr


def test_one_unreadable_run_does_not_hide_the_others() -> None:
    for name in ("a", "b"):
        write_run(name, RunRecord(("python", "a.py"), 1.0, ended_at=2.0, status=0))
    (RUNS / "a" / "rule-output" / "verdicts.jsonl").unlink()
    (RUNS / "a" / "rule-output" / "verdicts.jsonl").mkdir()
    lines = CliRunner().invoke(main, ["runs", "--format", "jsonl"]).stdout.splitlines()
    assert "b" in [json.loads(line)["name"] for line in lines]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.session.Session().client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="runs")
        yield client


def test_runs_in_s3(s3: Any) -> None:
    for name, has_ended in (("a", True), ("b", False)):
        store = S3Store("runs", f"jobs/{name}/debug-output", client=s3)
        for step in range(3):
            write_tensors(store, step, {"Loss_output_0": 1.0})
        if has_ended:
            end_run(store)
    s3.put_object(Bucket="runs", Key="jobs/a/rule-output/verdicts.jsonl", Body=f"{issue().to_json()}\n".encode())
    s3.put_object(Bucket="runs", Key="jobs/models/model.tar.gz", Body=b"")
    s3.put_object(Bucket="runs", Key="jobs/notes.txt", Body=b"")
    result = CliRunner().invoke(main, ["runs", "s3://runs/jobs/"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["run", "state", "saved", "issues"],
        ["b", "open", "3", "not", "judged"],
        ["a", "ended", "3", "1", "(critical)"],
    ]
    (row, _) = csv.DictReader(
        io.StringIO(CliRunner().invoke(main, ["runs", "s3://runs/jobs", "--format", "csv"]).stdout)
    )
    assert (row["uri"], row["started_at"]) == ("s3://runs/jobs/b", "")
    assert "is itself a run" in CliRunner().invoke(main, ["runs", "s3://runs/jobs/a"]).stderr
    assert CliRunner().invoke(main, ["runs", "s3://elsewhere/jobs"]).exit_code == 3


def test_what_s3_refuses_exits_with_4_and_says_whose_credentials_to_look_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    result = CliRunner().invoke(main, ["runs", "s3://runs"])
    assert (result.exit_code, result.stdout) == (4, "")
    assert "aws sts get-caller-identity" in result.stderr.splitlines()[-1]
