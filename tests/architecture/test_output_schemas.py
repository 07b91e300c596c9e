"""Promises about `--format json`: every output has the published schema, and every command a schema."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import click
import jsonschema
import pytest
from click.testing import CliRunner
from moto import mock_aws

from tests.architecture.test_extras import leaves
from tests.training_lib.cli.gradient_runs import write_run
from tests.training_lib.cloud.conftest import make_run_table
from trackside.cli import main
from trackside.cli.terminal.rows import SCHEMA_VERSION
from trackside.cli.terminal.views.drill_card import as_document
from trackside.cloud.deployment import STACKS, stack_name
from trackside.cloud.drill import Arrival, Missing, Report
from trackside.contracts.deployment.run_table import HistoryRecord, JobRecord, merged
from trackside.contracts.deployment.stop_record import DecisionRecord, Savings, StopOutcome, VetoRecord
from trackside.contracts.event import Evidence, RuleEvaluation, RuleEvaluationStatus, TrainingJob

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
AS_AWS_HAS_IT = {"aws-rules"}  # always JSON, without an option for it
BY_AN_OPTION = {"profile-report"}  # `trackside profile --report`
WEIGHT = "gradient/Net_fc.weight"
LINES = [
    ("findings", ["findings", "bad"]),
    ("wait", ["wait", "bad", "--timeout", "0"]),
    ("report", ["report", "bad"]),
    ("runs", ["runs"]),
    ("tensors", ["tensors", "bad"]),
    ("tensors", ["tensors", "bad", "--regex", "nothing-of-that-name"]),
    ("stats", ["stats", "bad"]),
    ("profile", ["profile", "bad"]),
    ("profile-report", ["profile", "bad", "--report"]),
    ("values", ["values", "bad", WEIGHT]),
    ("values", ["values", "bad", WEIGHT, "--steps", "0:100"]),
    ("values", ["values", "bad", "--regex", "fc"]),
    ("rules-list", ["rules", "list"]),
    ("rules-show", ["rules", "show", "vanishing-gradient"]),
    ("rules-run", ["rules", "run", "bad"]),
    ("rules-run", ["rules", "run", "bad", "sound", "--only", "exploding-tensor"]),
    ("judge", ["judge", "log.csv"]),
    ("rules-test", ["rules", "test", "bad", "sound", "--only", "exploding-tensor"]),
    ("query", ["query", "rules-that-fire"]),
    ("compare", ["compare", "bad", "sound"]),
    ("compare", ["compare", "bad", "sound", "--max-step-time", "+5%"]),
    ("doctor", ["doctor"]),
    ("config-show", ["config", "show"]),
    ("init", ["init", "--agents"]),
    ("rm", ["rm", "bad", "--dry-run"]),
    ("prune", ["prune", "--keep", "0", "--dry-run"]),
    ("check", ["check", "--", "true"]),
    ("aws-status", ["aws", "status", "--days", "366", "--table", "runs"]),
    ("aws-verdicts", ["aws", "verdicts", "digits", "--history", "--table", "runs"]),
    ("aws-rules", ["aws", "rules", "digits", "--table", "runs"]),
    ("aws-redrive", ["aws", "redrive", "--all", "--dry-run"]),
]
# A drill deploys first. Its command prints such reports.
REPORTS = [
    Report("drill-1", "1", "us-east-1", 100.0, (Arrival("the job runs", 90.0, "one"),), (), ("queue deleted",)),
    Report("drill-2", "1", "us-east-1", None, (), (Missing("a stop", "a dry run", "the log"),), (), ("the queue",)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("outputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        write_run("bad", [1.0, 1.0, math.nan, math.nan])
        write_run("sound", [1.0] * 3)
    (place / "log.csv").write_text("step,loss\n1,2.0\n2,nan\n")
    return place


def schema_of(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


@pytest.fixture(scope="module")
def account() -> Iterator[None]:
    """An account with a deployment that has judged one job."""
    with mock_aws(), pytest.MonkeyPatch.context() as patch:  # in this order: moto sets keys, which it takes back last
        for name in [name for name in os.environ if name.startswith(("AWS_", "TRACKSIDE_"))]:  # noqa: TID251 cleaning it
            patch.delenv(name)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        make_run_table()
        job = TrainingJob("digits", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits")
        issue = RuleEvaluation(
            job, "dead-relu", RuleEvaluationStatus.ISSUES_FOUND, "Dead.", rule_id="dead-relu", actions=(),
            evaluation_job_arn="arn:evaluator", modified_at=1.8e9, evidence=Evidence(step=40, since_step=20),
        )  # fmt: skip
        savings = Savings(7200, "2 x ml.m5.large", 0.5, 2.0)
        for record in (
            JobRecord(job, "Stopping", created_at=1.8e9, run_uri="s3://runs/digits"),
            merged(None, issue),
            HistoryRecord(issue),
            HistoryRecord(replace(issue, modified_at=1.8e9 - 60)),
            DecisionRecord(issue, StopOutcome.STOPPED, 1.8e9, "Stopped digits.", "event-1", savings),
            VetoRecord(job.arn, 1.8e9, "ada", "it is mine"),
        ):
            boto3.client("dynamodb").put_item(TableName="runs", Item=record.to_item(expires_at=None))
        queue = boto3.client("sqs").create_queue(QueueName="letters")["QueueUrl"]
        outputs = {f"StopTraining{kind}": {"Value": queue} for kind in ("QueueUrl", "DeadLettersUrl")}
        for stack in STACKS:
            template = {"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}, "Outputs": outputs}
            body = json.dumps(template)
            boto3.client("cloudformation").create_stack(StackName=stack_name(stack), TemplateBody=body)
        yield


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(("name", "line"), LINES, ids=[" ".join(line) for _, line in LINES])
def test_what_is_printed_has_the_published_schema(
    name: str, line: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    document = _printed(line, *(() if name in AS_AWS_HAS_IT else ("--format", "json")))
    jsonschema.Draft202012Validator(schema_of(name)).validate(document)
    if name not in AS_AWS_HAS_IT:
        assert _printed(line, "--json").keys() == document.keys()


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.job)
def test_the_report_of_a_drill_has_the_published_schema(report: Report) -> None:
    document = {"schema_version": SCHEMA_VERSION, **as_document(report)}
    jsonschema.Draft202012Validator(schema_of("drill")).validate(document)


def test_every_command_with_json_has_a_schema_that_a_line_here_is_held_against() -> None:
    with_json = {"-".join(words) for words in leaves(main) if _prints_json(words)}
    published = {path.stem for path in SCHEMAS.glob("*.json")}
    assert with_json | AS_AWS_HAS_IT | BY_AN_OPTION == published == {name for name, _ in LINES} | {"drill"}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("findings", {"steps_saved": "many"}, id="another-kind"),
        pytest.param("findings", {"schema_version": 2}, id="another-version"),
        pytest.param("rm", {"removed": None}, id="null"),
    ],
)
def test_the_schemas_refuse_another_shape(
    name: str, change: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    words = ["rm", "bad", "--dry-run"] if name == "rm" else [name, "bad"]
    document = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema_of(name)).validate({**document, **change})


def _printed(line: list[str], *options: str) -> dict[str, Any]:
    """Return the document that a command prints with these options, which stand before `--`."""
    end = line.index("--") if "--" in line else len(line)
    document: dict[str, Any] = json.loads(CliRunner().invoke(main, [*line[:end], *options, *line[end:]]).stdout)
    return document


def _prints_json(words: tuple[str, ...]) -> bool:
    command: click.Command = main
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return any("--json" in parameter.opts for parameter in command.params)
