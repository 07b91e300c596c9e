"""What people see of the table, what it says when there is none, and a veto."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from email.utils import format_datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from click.testing import CliRunner

from trackside.cli import main
from trackside.cloud.rule_statuses import debug_rule_evaluation_statuses
from trackside.cloud.run_table import RunTable
from trackside.contracts.deployment.run_table import HistoryRecord, JobRecord, merged
from trackside.contracts.deployment.stop_record import DecisionRecord, Savings, StopOutcome
from trackside.contracts.errors import AccessDeniedError, LocationNotFoundError, StorageUnavailableError
from trackside.contracts.event import Evidence, RuleEvaluation, RuleEvaluationStatus, TrainingJob

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/"
NOW = 1_795_226_674.0  # as in conftest.py: 2026-11-21 02:04:34 UTC
DAY = 24 * 3600
HOUR = 3600


def job(name: str, status: str = "InProgress", *, created_at: float = NOW - HOUR) -> JobRecord:
    return JobRecord(TrainingJob(name, ARN + name), status, created_at=created_at, run_uri=f"s3://runs/{name}")


def said(status: str, *, rule: str = "dead-relu", at: float = NOW - 60, name: str = "digits") -> RuleEvaluation:
    return RuleEvaluation(
        TrainingJob(name, ARN + name),
        rule,
        RuleEvaluationStatus(status),
        "Half of the neurons of layer 3 are dead.",
        rule_id=rule,
        actions=(),
        evaluation_job_arn="arn:evaluator",
        modified_at=at,
        evidence=Evidence(step=40, since_step=20, comparison="dead share 0.5 > 0.3"),
    )


ISSUE = said("IssuesFound")


def test_running_jobs_come_first_then_those_of_the_last_days_newest_first(table: RunTable, put: Any) -> None:
    put(
        job("old-but-running", created_at=NOW - 20 * DAY),
        job("today", "Completed"),
        job("today-earlier", "Failed", created_at=NOW - 2 * HOUR),
        job("yesterday", "Stopped", created_at=NOW - 26 * HOUR),
        job("last-week", "Completed", created_at=NOW - 7 * DAY),
    )
    assert [one.job.name for one in table.jobs(days=2)] == ["old-but-running", "today", "today-earlier", "yesterday"]
    assert [one.job.name for one in table.jobs(days=1)] == ["old-but-running", "today", "today-earlier"]
    assert len(list(table.jobs(days=8))) == 5


def test_many_jobs_come_in_many_pages(table: RunTable, put: Any) -> None:
    details = "x" * 20_000  # a page holds 1 MB
    jobs = [replace(job(f"job-{n}", created_at=NOW - n), failure_reason=details) for n in range(60)]
    put(*jobs)
    assert list(table.jobs(days=1)) == jobs


def test_a_name_is_that_of_a_job_of_this_account_and_region(table: RunTable) -> None:
    assert table.arn_of("digits") == f"{ARN}digits"
    assert table.arn_of("arn:aws-cn:sagemaker:x") == "arn:aws-cn:sagemaker:x"


def test_gives_the_shape_of_describe_training_job(table: RunTable, put: Any) -> None:
    official = replace(said("NoIssuesFound", rule="Overfit"), actions=None)
    put(job("digits"), merged(None, ISSUE), merged(None, official), HistoryRecord(ISSUE))
    assert debug_rule_evaluation_statuses("digits", table=table) == [
        {
            "RuleConfigurationName": rule,
            "RuleEvaluationJobArn": "arn:evaluator",
            "RuleEvaluationStatus": status,
            "StatusDetails": "Half of the neurons of layer 3 are dead.",
            "LastModifiedTime": datetime(2026, 11, 21, 2, 3, 34, tzinfo=timezone.utc),
        }
        for rule, status in (("Overfit", "NoIssuesFound"), ("dead-relu", "IssuesFound"))
    ]
    assert debug_rule_evaluation_statuses("another", table=table) == []


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["aws", *words, *(("--table", "runs") if "--table" not in words else ())])
    return result.exit_code, result.stdout, result.stderr


def test_prints_what_is_known_of_a_job(table: RunTable, put: Any) -> None:
    clean = said("NoIssuesFound", rule="overfit")
    decision = DecisionRecord(
        ISSUE, StopOutcome.STOPPED, NOW, "Stopped digits.", "event-1", Savings(7200, "2 x ml.m5.large", 0.5, 2.0)
    )
    put(job("digits", "Stopping"), merged(None, clean), merged(None, ISSUE), HistoryRecord(ISSUE), decision)
    code, out, _ = run("verdicts", "digits", "--history")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "digits: Stopping"
    assert [line.split()[0] for line in lines[1:] if line] == [
        "rule",
        "dead-relu",
        "overfit",
        "history",
        "dead-relu",
        "decision",
        "Stopped",
    ]
    assert "step 20" in out
    code, out, _ = run("verdicts", f"{ARN}digits", "--json")
    document = json.loads(out)
    assert document["rules"][0]["finding_count"] == 1
    assert document["DebugRuleEvaluationStatuses"][0]["LastModifiedTime"] == "2026-11-21T02:03:34+00:00"
    assert document["decisions"][0]["most_money_spared"] == 2.0
    assert document["history"] == []


def test_prints_the_jobs(table: RunTable, put: Any) -> None:
    put(job("digits"), job("quiet", created_at=NOW - 9), merged(None, ISSUE))
    code, out, _ = run("status")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["job", "quiet", "digits"]
    assert [line.split()[-2:] for line in out.splitlines()][1:] == [["not", "judged"], ["1", "dead-relu"]]
    _, out, _ = run("status", "--json")
    assert json.loads(out)["jobs"][1]["rules"] == {"dead-relu": "IssuesFound"}


@pytest.fixture
def row(put: Any) -> None:
    """A run of three jobs: the first was stopped, then the second."""
    names, states = ("digits", "digits-resumed-1", "digits-resumed-2"), ("Stopping", "Stopping", "InProgress")
    for number, (name, state) in enumerate(zip(names, states, strict=True)):
        one = job(name, state, created_at=NOW - HOUR + number)
        before = f"{ARN}{names[number - 1]}@{int(NOW - HOUR) + number - 1}" if number else ""
        put(replace(one, job=replace(one.job, continues=before)))
        if state == "Stopping":
            reason = f"{name} goes on as {names[number + 1]} from step 19, after a stop at step 40."
            found = said("IssuesFound", name=name)
            put(DecisionRecord(found, StopOutcome.STOPPED, NOW, f"Stopped {name}."))
            put(DecisionRecord(found, StopOutcome.RESUMED, NOW + 1, reason, successor=names[number + 1]))


@pytest.mark.usefixtures("row")
@pytest.mark.parametrize("name", ["digits", "digits-resumed-1", "digits-resumed-2"])
def test_each_job_of_a_row_shows_what_became_of_the_run(table: RunTable, name: str) -> None:
    code, out, _ = run("verdicts", name)
    assert code == 0
    lines = [line.split(maxsplit=2) for line in out.splitlines()]
    first = next(number for number, line in enumerate(lines) if line[:2] == ["one", "run"])
    assert [line[:2] for line in lines[first + 1 : first + 4]] == [
        ["digits", "Stopping"],
        ["digits-resumed-1", "Stopping"],
        ["digits-resumed-2", "InProgress"],
    ]
    assert lines[first + 1][2].startswith("digits goes on as digits-resumed-1 from step 19, after a stop at step 40")
    _, out, _ = run("verdicts", name, "--json")
    assert [one["job"] for one in json.loads(out)["row"]] == ["digits", "digits-resumed-1", "digits-resumed-2"]


@pytest.mark.usefixtures("row")
def test_the_list_of_jobs_shows_which_continues_which(table: RunTable) -> None:
    _, out, _ = run("status")
    assert "InProgress, continues digits-resumed-1" in out
    assert "Stopping, continues digits, goes on as digits-resumed-2" in out
    _, out, _ = run("status", "--json")
    links = {one["job"]: (one["continues"], one["goes_on_as"]) for one in json.loads(out)["jobs"]}
    assert links == {
        "digits": (None, "digits-resumed-1"),
        "digits-resumed-1": ("digits", "digits-resumed-2"),
        "digits-resumed-2": ("digits-resumed-1", None),
    }


def test_a_row_ends_at_a_job_that_the_table_does_not_have(table: RunTable, put: Any) -> None:
    alone = job("digits-resumed-1")
    put(replace(alone, job=replace(alone.job, continues=f"{ARN}digits@1")))
    known = table.known("digits-resumed-1")
    assert [one.name for one in table.row(known)] == ["digits-resumed-1"]
    code, out, _ = run("verdicts", "digits-resumed-1")
    assert (code, "one run" in out) == (0, False)


def test_says_so_when_nothing_is_known(table: RunTable) -> None:
    code, out, err = run("status")
    assert (code, out) == (0, "")
    assert "knows no job" in err
    code, out, err = run("verdicts", "digits")
    assert (code, out) == (3, "")
    assert "knows no training job 'digits'" in err


def test_a_mistyped_veto_is_none(table: RunTable, put: Any) -> None:
    put(job("digits"))
    code, out, err = run("veto", "digit")
    assert (code, out) == (3, "")
    assert "knows no training job 'digit'" in err
    assert "Try: trackside aws status" in err


def test_a_veto_that_comes_too_late_says_so(table: RunTable, put: Any) -> None:
    put(replace(job("digits", "Stopped"), ended_at=NOW))
    code, out, _ = run("veto", "digits")
    assert code == 0
    assert out.startswith("digits has ended already (Stopped)")


def test_a_veto_stands_in_the_table(table: RunTable, put: Any) -> None:
    put(job("digits"))
    code, out, _ = run("veto", "digits", "--by", "ada", "--reason", "it is meant to")
    assert (code, out) == (0, "digits is not stopped for what was found until now.\n")
    veto = table.known("digits").veto
    assert veto is not None
    assert (veto.job_arn, veto.by, veto.reason) == (f"{ARN}digits", "ada", "it is meant to")
    code, out, _ = run("verdicts", "digits")
    assert "ada" in out
    assert out.startswith("digits: InProgress\n")


@pytest.mark.parametrize("hours_off", [-2, 0, 2])
def test_a_veto_has_the_time_of_the_server(table: RunTable, put: Any, hours_off: int) -> None:
    """One of a laptop two hours behind was older than the finding, and the job was stopped all the same."""
    put(job("digits"))
    dynamodb = boto3.client("dynamodb")

    def answer_with_date(parsed: dict[str, Any], **_: Any) -> None:
        parsed["ResponseMetadata"]["HTTPHeaders"]["date"] = format_datetime(datetime.fromtimestamp(NOW, timezone.utc))

    dynamodb.meta.events.register("after-call.dynamodb.Query", answer_with_date)
    clients = {"dynamodb": dynamodb, "sts": boto3.client("sts")}
    laptop = RunTable("runs", client=clients.__getitem__, clock=lambda: NOW + 3600 * hours_off)
    veto = laptop.veto("digits", by="ada", reason="").veto
    assert veto is not None
    assert NOW <= veto.at <= NOW + 1


def test_a_job_that_ends_while_it_is_listed_is_listed_once(table: RunTable, put: Any) -> None:
    put(job("digits"))
    jobs = table.jobs(days=1)
    first = next(jobs)
    put(job("digits", "Completed"))
    assert [first, *jobs] == [job("digits")]


def test_finds_the_table_of_the_deployment(table: RunTable, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LocationNotFoundError, match="There is no stack TracksideStorage in us-east-1"):
        RunTable()
    template = {"Resources": {}, "Outputs": {"RunTableName": {"Value": "runs"}}}
    boto3.client("cloudformation").create_stack(StackName="TracksideStorage", TemplateBody=json.dumps(template))
    assert RunTable().name == "runs"
    with pytest.raises(LocationNotFoundError, match="There is no stack Trackside-staging-Storage in us-east-1"):
        RunTable(environment="staging")
    monkeypatch.setenv("TRACKSIDE_TABLE", "of-the-environment")
    assert RunTable().name == "of-the-environment"
    assert RunTable("given").name == "given"
    code, _, err = run("status", "--table", "no-such-table")
    assert code == 3
    assert "There is no table no-such-table in us-east-1.\n  Try: set AWS_REGION" in err
    assert "--table" in err


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(
            ClientError({"Error": {"Code": "AccessDeniedException"}}, "Query"), AccessDeniedError, id="denied"
        ),
        pytest.param(
            ClientError({"Error": {"Code": "ThrottlingException"}}, "Query"), StorageUnavailableError, id="busy"
        ),
        pytest.param(EndpointConnectionError(endpoint_url="https://x"), StorageUnavailableError, id="no network"),
    ],
)
def test_says_what_is_wrong(error: Exception, kind: type[Exception]) -> None:
    class Refusing:
        def query(self, **_: Any) -> None:
            raise error

    with pytest.raises(kind):
        list(RunTable("runs", client=lambda _: Refusing()).jobs(days=1))
