"""Saved questions of the deployment: the texts in Athena, asked of the files that `trackside query` wrote for it.

Athena's engine is not played: DuckDB reads the files by the tables' locations, columns and days.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from stacks.assembly import assembly
from stacks.questions_stack import TYPES
from tests.training_lib.views.dashboard.runs import ISSUE, write_run
from trackside.cli import main
from trackside.contracts.questions.saved import QUESTIONS
from trackside.contracts.questions.tables import DATE, FIRST_DAY, STATISTICS, STATISTICS_COLUMNS, TABLES
from trackside.testing import fake_trial
from trackside.views.query.database import MACROS, RunDatabase
from trackside.views.query.tables import run_tables
from trackside_localaccount.deploy import deploy
from trackside_localaccount.server import LocalAccount

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("local-account")]
SETTINGS = {"trackside:questions": "true"}
RUNS_AT = 1_795_400_000.0  # 23 November 2026
ALL = {**TABLES, STATISTICS: STATISTICS_COLUMNS}


@dataclass(frozen=True)
class Deployed:
    """The deployment: its outputs, its tables of Glue, and a folder with a copy of what was written."""

    account: LocalAccount
    outputs: Mapping[str, str]
    tables: Mapping[str, Mapping[str, Any]]
    copy: Path
    runs: str


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("questions")
    with LocalAccount() as account, pytest.MonkeyPatch.context() as patch:
        for name, value in account.environment().items():
            patch.setenv(name, value)
        patch.setattr(fake_trial, "WALL_TIME", RUNS_AT)
        stacks = deploy(assembly(SETTINGS), account)
        outputs = {name: value for each in stacks.values() for name, value in each.items()}
        s3, bucket = account.client("s3"), outputs["RunBucketName"]
        for name, verdicts in (("faulty", (ISSUE,)), ("right", ())):
            write_run(folder / name, verdicts=verdicts)
            for path in (folder / name).rglob("*"):
                if path.is_file():
                    s3.put_object(Bucket=bucket, Key=f"jobs/{path.relative_to(folder)}", Body=path.read_bytes())
        runs = f"s3://{bucket}/jobs"
        done = CliRunner().invoke(main, ["query", "--write", outputs["QuestionsPlace"], runs], catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        found = account.client("glue").get_tables(DatabaseName=outputs["QuestionsDatabase"])["TableList"]
        copy = folder / "copy"
        for each in s3.list_objects_v2(Bucket=bucket)["Contents"]:
            (copy / each["Key"]).parent.mkdir(parents=True, exist_ok=True)
            (copy / each["Key"]).write_bytes(s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read())
        yield Deployed(account, outputs, {table["Name"]: table for table in found}, copy, runs)


@pytest.fixture(scope="module")
def database(deployed: Deployed) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(MACROS)
        for name, table in deployed.tables.items():
            place = table["StorageDescriptor"]["Location"].removeprefix(f"s3://{deployed.outputs['RunBucketName']}/")
            files = [str(path) for path in (deployed.copy / place).glob("*/*.parquet")]
            connection.read_parquet(files, hive_partitioning=True, union_by_name=True).create_view(name)
        yield connection


def saved(deployed: Deployed) -> Mapping[str, Mapping[str, Any]]:
    athena = deployed.account.client("athena")
    ids = athena.list_named_queries(WorkGroup=deployed.outputs["QuestionsWorkgroup"])["NamedQueryIds"]
    found = [athena.get_named_query(NamedQueryId=each)["NamedQuery"] for each in ids]
    return {each["Name"]: each for each in found}


def test_all_questions_are_saved_with_their_text(deployed: Deployed) -> None:
    found = saved(deployed)
    assert {name: each["QueryString"] for name, each in found.items()} == {k: q.sql for k, q in QUESTIONS.items()}
    assert {each["Database"] for each in found.values()} == {deployed.outputs["QuestionsDatabase"]}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_saved_question_has_the_answer_of_a_desk(
    deployed: Deployed, database: duckdb.DuckDBPyConnection, name: str
) -> None:
    cursor = database.execute(saved(deployed)[name]["QueryString"])
    answer = (tuple(column[0] for column in cursor.description or ()), tuple(cursor.fetchall()))
    with RunDatabase(run_tables(deployed.runs)) as at_desk:
        wanted = at_desk.answer(QUESTIONS[name].sql)
    assert answer == (wanted.columns, wanted.rows)
    assert answer[1] or name in ("what-stops-saved", "without-verdict", "by-day")


@pytest.mark.parametrize("name", ALL)
def test_a_table_has_the_columns_and_types_of_its_files(
    deployed: Deployed, database: duckdb.DuckDBPyConnection, name: str
) -> None:
    table = deployed.tables[name]
    declared = {each["Name"]: each["Type"] for each in table["StorageDescriptor"]["Columns"]}
    words = {
        "VARCHAR": "string",
        "BIGINT": "bigint",
        "DOUBLE": "double",
        "BOOLEAN": "boolean",
        "TIMESTAMP": "timestamp",
    }
    described = database.execute(f"DESCRIBE {name}").fetchall()
    in_files = {row[0]: words.get(str(row[1]), str(row[1])) for row in described if row[0] != DATE}
    assert declared == in_files
    assert declared == {each: TYPES[kind] for each, kind in ALL[name].items() if each != DATE}
    assert table["PartitionKeys"] == [{"Name": DATE, "Type": "date"}]


@pytest.mark.parametrize("name", ALL)
def test_the_days_that_athena_looks_for_are_those_of_the_files(deployed: Deployed, name: str) -> None:
    table = deployed.tables[name]
    first, _, last = table["Parameters"][f"projection.{DATE}.range"].partition(",")
    assert (first, last) == (FIRST_DAY, "NOW+1DAYS")
    assert table["Parameters"][f"projection.{DATE}.format"] == "yyyy-MM-dd"
    place = table["StorageDescriptor"]["Location"].removeprefix(f"s3://{deployed.outputs['RunBucketName']}/")
    days = [path.name.partition("=")[2] for path in (deployed.copy / place).iterdir()]
    assert days == ["2026-11-23"]
    assert all(first <= day < "2100" for day in days)


def test_answers_are_encrypted_and_no_question_reads_without_end(deployed: Deployed) -> None:
    group = deployed.account.client("athena").get_work_group(WorkGroup=deployed.outputs["QuestionsWorkgroup"])
    configuration = group["WorkGroup"]["Configuration"]
    assert configuration["ResultConfiguration"]["EncryptionConfiguration"]["EncryptionOption"] == "SSE_KMS"
    assert str(configuration["EnforceWorkGroupConfiguration"]).lower() == "true"
    assert int(configuration["BytesScannedCutoffPerQuery"]) <= 10**11
