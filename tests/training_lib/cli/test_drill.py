"""`trackside drill` as a person meets it: before it begins, and the card at the end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import boto3
import pytest
from click.testing import CliRunner
from moto import mock_aws
from rich.console import Console

from trackside.cli import main
from trackside.cli.terminal.views.drill_card import DrillCard, as_document
from trackside.cloud.drill import OUTPUTS, Arrival, Missing, Report
from trackside.extras import install_command

ARRIVALS = (
    Arrival("training job runs", 90.0, "one ml.m5.large"),
    Arrival("training goes wrong", 100.0, "learning rate x 1000, step 20"),
    Arrival("a rule finds it", 101.5, "exploding-tensor, step 32"),
    Arrival("owners are notified", 102.0, "1 message by SNS"),
    Arrival("training is stopped", 103.25, "SageMaker reports Stopped"),
)
PASSED = Report("trackside-drill-1", "123456789012", "us-east-1", 100.0, ARRIVALS, (), ("queue deleted",))
HELD = Missing("training is stopped", "WouldStop: dry run", "trackside aws verdicts trackside-drill-1")
FAILED = Report("trackside-drill-1", "123456789012", "us-east-1", 100.0, ARRIVALS[:-1], (HELD,), (), ("the queue: no",))


def printed(report: Report, *, width: int = 80, encoding: str = "utf-8") -> str:
    console = Console(width=width, no_color=True, highlight=False, legacy_windows=False)
    console.options.encoding = encoding
    with console.capture() as capture:
        console.print(DrillCard(report))
    return capture.get()


def test_the_card_tells_each_hops_time_since_the_fault_and_since_the_last() -> None:
    lines = printed(PASSED).splitlines()
    (verdict,) = [line for line in lines if "a rule finds it" in line]
    assert verdict.split()[:4] == ["+1.5", "s", "+1.5", "s"]
    (first,) = [line for line in lines if "training job runs" in line]
    assert first.split()[:3] == ["-10.0", "s", "✓"], "the first has none before it"
    assert "All of it happened. Since the fault: verdict 1.5 s, message 2.0 s, stop 3.2 s." in " ".join(lines)


def test_the_card_says_what_did_not_happen_why_and_where_to_look() -> None:
    text = printed(FAILED)
    assert "✗ training is stopped" in text
    assert "WouldStop: dry run" in text
    assert "trackside aws verdicts trackside-drill-1" in text
    assert "1 of 5 did not happen." in text
    assert "NOT removed: the queue: no" in text


@pytest.mark.parametrize("report", [pytest.param(PASSED, id="passed"), pytest.param(FAILED, id="failed")])
def test_the_card_fits_80_columns(report: Report) -> None:
    assert max(map(len, printed(report).splitlines())) <= 80


def test_programs_get_the_same() -> None:
    document = json.loads(json.dumps(as_document(FAILED)))
    assert document["passed"] is False
    assert document["hops"][0] == {
        "hop": "training job runs",
        "at": 90.0,
        "seconds_since_fault": -10.0,
        "detail": "one ml.m5.large",
    }
    assert document["missing"][0]["look_at"] == "trackside aws verdicts trackside-drill-1"
    assert document["not_removed"] == ["the queue: no"]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty account that looks like a real one."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "TRACKSIDE_"))]:  # noqa: TID251  cleaning it
        monkeypatch.delenv(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        yield


def deployed(*outputs: str) -> None:
    """The stacks; the last of them has these outputs."""
    for stack in ("Storage", "Action", "Evaluation", "Record", "Monitoring"):
        template = {
            "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
            "Outputs": {name: {"Value": "x"} for name in outputs if stack == "Monitoring"},
        }
        boto3.client("cloudformation").create_stack(StackName=f"Trackside{stack}", TemplateBody=json.dumps(template))


@pytest.mark.usefixtures("account")
def test_an_account_without_a_deployment_is_told_so() -> None:
    result = CliRunner().invoke(main, ["drill", "--yes"])
    assert result.exit_code == 3
    assert "There is no stack TracksideStorage in us-east-1" in result.stderr


@pytest.mark.usefixtures("account")
def test_a_deployment_without_the_role_says_what_would_make_it() -> None:
    deployed(*(name for name in OUTPUTS if name != "DrillRoleArn"))
    result = CliRunner().invoke(main, ["drill", "--yes"])
    assert result.exit_code == 2
    assert "-c trackside:drills=true" in result.stderr


@pytest.mark.parametrize("answer", [pytest.param("n\n", id="no"), pytest.param("", id="nobody is there")])
@pytest.mark.usefixtures("account")
def test_a_real_account_is_asked_before_anything_is_made(answer: str) -> None:
    deployed(*OUTPUTS)
    result = CliRunner().invoke(main, ["drill"], input=answer)
    assert result.exit_code == 1
    assert "Nothing was begun." in result.stderr
    assert "account 123456789012, us-east-1" in result.stderr
    assert "paid by the second" in result.stderr
    assert "warn who is on call" in result.stderr
    assert boto3.client("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []
    assert not [url for url in boto3.client("sqs").list_queues().get("QueueUrls", []) if "drill" in url]


def test_a_local_drill_needs_a_clone(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    result = CliRunner().invoke(main, ["drill", "--local"])
    assert result.exit_code == 2
    assert "no clone of Trackside's repository" in result.stderr


def test_a_local_drill_needs_the_local_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trackside_localaccount", None)  # as if it were not installed
    result = CliRunner().invoke(main, ["drill", "--local"])
    assert result.exit_code == 2
    assert "trackside-localaccount is not installed" in result.stderr
    assert install_command("localcloud") in result.stderr
