"""Questions in SQL about many runs, answered by DuckDB, and the same tables as pandas reads them."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import boto3
import pandas
import pytest
import sqlglot
from click.testing import CliRunner
from moto import mock_aws
from sqlglot import optimizer
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from tests.training_lib.local.verdicts import finding, issue
from trackside.cli import main
from trackside.contracts.questions.saved import QUESTIONS
from trackside.contracts.questions.tables import STATISTICS, STATISTICS_COLUMNS, TABLES
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Severity, State, Verdict
from trackside.extras import install_command
from trackside.runs.run_folder import RUNS, RunRecord, write_record
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

PAGE = Path(__file__).parents[3] / "docs" / "query.md"
FIRST_DAY = datetime(2026, 11, 21, 23, 30, tzinfo=timezone.utc).timestamp()
LOSS = "CrossEntropyLoss_output_0"


def on(subject: str, rule: str = "vanishing-gradient", *, since: int = 4) -> Verdict:
    return issue(rule, findings=(finding(subject, since_step=since),))


REMARK = issue(severity=Severity.INFO)
BACK = replace(on("w"), outcome=Outcome.CLEAN, state=State.RECOVERED, step=issue().step + 7, findings=())


@pytest.fixture
def runs() -> None:
    """A run that was stopped for an issue, a longer one of the same command a day later, and an empty folder."""
    for number, name in enumerate(("bad", "good")):
        started_at = FIRST_DAY + 3600 * number
        end = (-15, True) if name == "bad" else (0, False)
        record = RunRecord(("python", "train.py", "--seed=1"), started_at, started_at + 60 * (1 + number), *end)
        (RUNS / name / "rule-output").mkdir(parents=True)
        verdict = issue() if name == "bad" else replace(issue(), outcome=Outcome.CLEAN, findings=(), actions=())
        (RUNS / name / "rule-output" / "verdicts.jsonl").write_text(verdict.to_json() + "\n")
        write_record(RUNS / name, record)
        store = LocalStore(RunLocation(str(RUNS / name)).tensors)
        write_collections(store)
        for step in range(3):
            write_tensors(store, step, {LOSS: 2.0 / (step + 1 + number)})
        end_run(store)
    (RUNS / "empty").mkdir()


def asked(*words: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["query", *words, "--format", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    rows: list[dict[str, Any]] = json.loads(result.stdout)["rows"]
    return rows


@pytest.mark.usefixtures("runs")
def test_the_tables_hold_the_runs() -> None:
    (bad, good) = asked("SELECT * FROM runs ORDER BY run")
    assert list(bad) == list(TABLES["runs"])
    assert (bad["run"], bad["state"], bad["issues"], bad["worst"]) == ("bad", "stopped", 1, "critical")
    assert (bad["date"], good["date"]) == ("2026-11-21", "2026-11-22"), "days are UTC's"
    assert (bad["seconds"], bad["status"], bad["stopped_by_trackside"]) == (60.0, -15, True)
    assert (good["state"], good["issues"], good["worst"], good["judged"]) == ("finished", 0, None, True)
    (found,) = asked("SELECT * FROM findings")
    verdict = issue()
    assert list(found) == list(TABLES["findings"])
    assert (found["run"], found["rule_id"], found["step"]) == ("bad", verdict.rule_id, verdict.step)
    assert (found["state"], found["message"]) == ("standing", verdict.message)
    assert found["subject"] == verdict.findings[0].subject


@pytest.mark.usefixtures("runs")
def test_a_recovered_finding_says_so() -> None:
    path = RUNS / "bad" / "rule-output" / "verdicts.jsonl"
    back = replace(issue(), outcome=Outcome.CLEAN, state=State.RECOVERED, step=issue().step + 7, findings=())
    path.write_text(issue().to_json() + "\n" + back.to_json() + "\n")
    (found,) = asked("SELECT state, recovered_at FROM findings")
    assert found == {"state": "recovered", "recovered_at": issue().step + 7}


@pytest.mark.usefixtures("runs")
def test_statistics_of_all_runs_join_them() -> None:
    rows = asked(
        "SELECT run, max(step) AS step, arg_max(value, step) AS loss FROM statistics GROUP BY run ORDER BY run"
    )
    assert [(row["run"], row["step"]) for row in rows] == [("bad", 2), ("good", 2)]
    assert [row["loss"] for row in rows] == pytest.approx([2 / 3, 2 / 4])


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_with_a_name_has_an_answer(name: str) -> None:
    rows = asked(name)
    if name == "what-stops-saved":
        ((command, *numbers),) = [tuple(row.values()) for row in rows]
        assert (command, numbers) == ("python train.py --seed=1", [1, 60.0, 120.0])
    if name == "by-day":
        assert [(row["date"], row["critical"]) for row in rows] == [("2026-11-22", 0), ("2026-11-21", 1)]
    assert rows or name == "without-verdict"


@pytest.mark.parametrize(
    ("verdicts", "clusters"),
    [
        pytest.param({}, [], id="no-run"),
        pytest.param({"a": ()}, [], id="no-issue"),
        pytest.param({"a": (REMARK,)}, [], id="a-remark-is-no-failure"),
        pytest.param(
            {"a": (on("fc.0.weight"),), "b": (on("fc.11.weight"),)},
            [("vanishing-gradient", "fc.*.weight", 2, "a")],
            id="two-layers-of-one-kind",
        ),
        pytest.param(
            {"a": (on("fc.0.weight"),), "b": (on("fc.0.bias"),)},
            [("vanishing-gradient", "fc.*.bias", 1, "b"), ("vanishing-gradient", "fc.*.weight", 1, "a")],
            id="two-kinds",
        ),
        pytest.param(
            {"a": (on("late", since=9), on("early", "loss-spike", since=3)), "b": (on("early", "loss-spike"),)},
            [("loss-spike", "early", 2, "a")],
            id="what-came-first-counts",
        ),
        pytest.param(
            {"a": (on("x'; DROP TABLE runs; --"),)},
            [("vanishing-gradient", "x'; DROP TABLE runs; --", 1, "a")],
            id="hostile-name",
        ),
        pytest.param({"a": (on("w"), BACK)}, [], id="recovered"),
    ],
)
def test_runs_that_failed_alike_are_one_row(
    verdicts: dict[str, tuple[Verdict, ...]], clusters: list[tuple[object, ...]]
) -> None:
    for name, some in verdicts.items():
        (RUNS / name / "rule-output").mkdir(parents=True)
        (RUNS / name / "rule-output" / "verdicts.jsonl").write_text("".join(f"{one.to_json()}\n" for one in some))
        write_record(RUNS / name, RunRecord(("python", "train.py"), FIRST_DAY, FIRST_DAY + 60, 0, False))
    RUNS.mkdir(parents=True, exist_ok=True)
    rows = asked("failed-alike")
    assert [(row["first_rule"], row["layer_kind"], row["runs"], row["for_example"]) for row in rows] == clusters


@pytest.mark.usefixtures("runs")
def test_the_tables_are_parquet_by_date_that_pandas_reads_too(tmp_path: Path) -> None:
    for _ in range(2):  # again: the same days are replaced
        result = CliRunner().invoke(main, ["query", "--write", "tables"])
        assert result.exit_code == 0, result.stderr
    for name, columns in TABLES.items():
        table = pandas.read_parquet(tmp_path / "tables" / name)
        assert set(table.columns) == set(columns)
        assert len(table) == len(asked(f"SELECT * FROM {name}"))  # noqa: S608
    assert sorted(path.name for path in (tmp_path / "tables" / "runs").iterdir()) == [
        "date=2026-11-21",
        "date=2026-11-22",
    ]
    (row,) = asked("SELECT run FROM read_parquet('tables/runs/*/*.parquet') WHERE date = DATE '2026-11-21'")
    assert row == {"run": "bad"}


@pytest.mark.usefixtures("runs")
def test_an_unreadable_run_is_named_and_the_others_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.open

    def broken_disk(path: Any, *words: Any, **named: Any) -> int:
        if str(path).endswith("bad/rule-output/verdicts.jsonl"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return whole(path, *words, **named)

    monkeypatch.setattr(os, "open", broken_disk)
    result = CliRunner().invoke(main, ["query", "SELECT run FROM runs", "--format", "csv"])
    assert list(csv.reader(io.StringIO(result.stdout))) == [["run"], ["good"]]
    assert re.search(r"Warning: left out, for it cannot be read: \S*/bad: .*Input/output error", result.stderr)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("question", "reason"),
    [
        pytest.param("SELECT nothing FROM runs", '"nothing"', id="an unknown column"),
        pytest.param("SELECT 1 FROM jobs", "jobs", id="an unknown table"),
        pytest.param("SELEKT 1", "SELEKT", id="no SQL"),
        pytest.param("rules-that-fires", "rules-that-fire", id="a question with a mistyped name"),
    ],
)
def test_a_question_without_an_answer_says_why(question: str, reason: str) -> None:
    result = CliRunner().invoke(main, ["query", question])
    assert result.exit_code == 2
    assert reason in result.stderr


def test_without_runs_tables_are_empty() -> None:
    RUNS.mkdir(parents=True)
    assert asked("SELECT count(*) AS runs FROM runs") == [{"runs": 0}]


@pytest.fixture
def bucket() -> Iterator[str]:
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="runs-bucket")
        yield "s3://runs-bucket/jobs"


def test_runs_of_a_bucket_answer_too(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("a", "b"):
        store = open_store(RunLocation(f"{bucket}/{name}").tensors)
        write_tensors(store, 0, {LOSS: 1.0})
        end_run(store)
    open_store(f"{bucket}/a/rule-output").put("verdicts.jsonl", issue().to_json().encode() + b"\n")
    rows = asked("SELECT run, state, issues, started_at FROM runs ORDER BY run", bucket)
    assert rows == [
        {"run": "a", "state": "ended", "issues": 1, "started_at": None},
        {"run": "b", "state": "ended", "issues": 0, "started_at": None},
    ]


def test_runs_of_a_bucket_have_the_day_of_their_first_statistics(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A healthy run has no verdict that would date it."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    store = open_store(f"{bucket}/healthy")
    write_tensors(open_store(RunLocation(store.uri).tensors), 0, {LOSS: 1.0})
    store.put(f"statistics/worker_0/{FIRST_DAY * 1000:.0f}-000000000-000000000.tss", b"")
    store.put("statistics/worker_1/nothing.txt", b"")
    (row,) = asked("SELECT date, started_at FROM runs", bucket)
    assert row == {"date": "2026-11-21", "started_at": "2026-11-21T23:30:00"}


def test_the_tables_of_a_bucket_lie_in_a_bucket(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    written = open_store("s3://runs-bucket/fleet")
    written.put("statistics/date=1970-01-01/a.parquet", b"of a run that had no date yet")
    written.put("findings/date=2026-11-21/findings-1.parquet", b"of a former writing")
    written.put("runs/date=2020-02-02/runs-0.parquet", b"of another day")
    tensors = open_store(RunLocation(f"{bucket}/a").tensors)
    write_collections(tensors)
    write_tensors(tensors, 0, {LOSS: 1.0})
    open_store(f"{bucket}/a/rule-output").put("verdicts.jsonl", issue().to_json().encode() + b"\n")
    result = CliRunner().invoke(main, ["query", "--write", "s3://runs-bucket/fleet", bucket], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    day = datetime.fromtimestamp(issue().detected_at, tz=timezone.utc).date().isoformat()
    assert set(written.list()) == {
        f"findings/date={day}/findings-0.parquet",
        f"runs/date={day}/runs-0.parquet",
        f"rules/date={day}/rules-0.parquet",
        f"statistics/date={day}/a.parquet",
        "runs/date=2020-02-02/runs-0.parquet",
        *(["findings/date=2026-11-21/findings-1.parquet"] if day != "2026-11-21" else []),
    }
    table = pandas.read_parquet(io.BytesIO(written.get(f"statistics/date={day}/a.parquet")))
    assert list(table.columns) == list(STATISTICS_COLUMNS)
    assert asked("SELECT count(*) AS runs FROM runs", "s3://runs-bucket/jobs") == [{"runs": 1}]


# The schema as both dialects know it, for the types of columns.
_NAMES = {"string": "VARCHAR", "int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN", "date32": "DATE"}
SCHEMA: dict[str, object] = {
    table: {name: _NAMES.get(kind, "TIMESTAMP") for name, kind in columns.items()}
    for table, columns in {**TABLES, STATISTICS: STATISTICS_COLUMNS}.items()
}


def meaning(sql: str, dialect: str) -> str:
    """Return what a question means when it is read in a dialect, in the words of Athena.

    sqlglot knows both dialects. Each column must be one of the tables', and its type decides what a division means.
    """
    read = sqlglot.parse_one(sql, read=dialect)
    known = optimizer.optimize(read, schema=SCHEMA, dialect=dialect, rules=(qualify, annotate_types))
    return known.sql("athena")


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_means_the_same_to_duckdb_and_athena(name: str) -> None:
    sql = QUESTIONS[name].sql
    assert meaning(sql, "duckdb") == meaning(sql, "athena")
    called = {str(each.name).upper() for each in sqlglot.parse_one(sql, read="athena").find_all(sqlglot.exp.Anonymous)}
    assert called == set(), "a function that Athena does not know"
    assert " ALL" not in sql, "GROUP BY ALL is DuckDB's"
    assert re.findall(r"FILTER \((?!WHERE )", sql) == []


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param("SELECT list(DISTINCT run) AS x FROM runs", id="a-function-of-duckdb"),
        pytest.param("SELECT issues / 2 AS x FROM runs", id="a-division"),
        pytest.param("SELECT nothing FROM runs", id="an-unknown-column"),
        pytest.param("SELECT code FROM finding", id="an-unknown-table"),
    ],
)
def test_a_question_for_duckdb_alone_would_be_noticed(sql: str) -> None:
    try:
        assert meaning(sql, "duckdb") != meaning(sql, "athena")
    except sqlglot.errors.SqlglotError:
        return


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    RUNS.mkdir(parents=True)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    result = CliRunner().invoke(main, ["query", "by-day"])
    assert result.exit_code == 2
    assert install_command("query") in result.stderr


def test_the_page_holds_each_table_column_and_question() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for table, columns in TABLES.items():
        assert f"| `{table}` |" in page
        assert [name for name in columns if f"`{name}`" not in page] == []
    for name, question in QUESTIONS.items():
        assert f"trackside query {name}" in page
        assert question.sql in page
