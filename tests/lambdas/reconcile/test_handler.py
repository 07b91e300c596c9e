"""A sweep finds what events missed, tells it once, and stays within SageMaker's rates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from lambdas.reconcile.handler import handle
from lambdas.reconcile.settings import ReconcileSettings
from lambdas.reconcile.sweep import Sweep
from lambdas.shared.processing_jobs import evaluator_mark, evaluator_name, name_of_later_job, processing_job_name
from lambdas.shared.run_table import RunTable
from tests.lambda_settings import made
from trackside.contracts.deployment.run_table import JobRecord
from trackside.contracts.event import TrainingJob

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/"
NOW = 1_795_226_674.0
CREATED = NOW - 3600
TICK = {"id": "tick", "source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
SWITCH = "/trackside/trackside/dry-run"
NOT_FOUND = ("ValidationException", "Could not find requested job with name: x")
Deliver = Callable[..., list[str]]


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)


@pytest.fixture
def queues(account: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """start and record; the function's clock stands still, and it never sleeps."""
    sqs = boto3.client("sqs")
    urls = {name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("start", "record")}
    settings = made(
        ReconcileSettings,
        run_table="runs",
        run_bucket="runs-bucket",
        dry_run_parameter=SWITCH,
        **{f"{name}_queue_url": url for name, url in urls.items()},
        list_pause_seconds=0,
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("lambdas.reconcile.handler.time", SimpleNamespace(time=lambda: NOW))
    return urls


def sent(url: str) -> list[str]:
    """The statuses that were told there."""
    messages = boto3.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
    return [json.loads(message["Body"])["detail"]["TrainingJobStatus"] for message in messages]


def tags_sent(url: str) -> list[dict[str, str]]:
    """The tags of the jobs that were told of there."""
    messages = boto3.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
    return [json.loads(message["Body"])["detail"]["Tags"] for message in messages]


def hold(name: str, *, run_uri: str = "s3://runs-bucket/digits", evaluator: str = "") -> JobRecord:
    record = JobRecord(
        TrainingJob(name, ARN + name), "InProgress", run_uri=run_uri, created_at=CREATED, evaluator=evaluator
    )
    boto3.client("dynamodb").put_item(TableName="runs", Item=record.to_item(expires_at=None))
    return record


def lists(sagemaker: Stubber, *names: str, token: str = "", after: str = "") -> None:
    summaries = [
        {
            "TrainingJobName": name,
            "TrainingJobArn": ARN + name,
            "TrainingJobStatus": "InProgress",
            "CreationTime": at(CREATED),
        }
        for name in names
    ]
    expected = {
        "StatusEquals": "InProgress",
        "CreationTimeAfter": ANY,
        "SortBy": "CreationTime",
        "SortOrder": "Descending",
        "MaxResults": 100,
        **({"NextToken": after} if after else {}),
    }
    answer = {"TrainingJobSummaries": summaries, **({"NextToken": token} if token else {})}
    sagemaker.add_response("list_training_jobs", answer, expected)


def describes(sagemaker: Stubber, name: str, status: str, **more: Any) -> None:
    description = {
        "TrainingJobName": name,
        "TrainingJobArn": ARN + name,
        "ModelArtifacts": {"S3ModelArtifacts": "s3://x"},
        "TrainingJobStatus": status,
        "SecondaryStatus": status,
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        "CreationTime": at(CREATED),
        "LastModifiedTime": at(NOW),
        **more,
    }
    sagemaker.add_response("describe_training_job", description, {"TrainingJobName": name})


def describes_evaluator(sagemaker: Stubber, name: str, status: str, *, created_at: float = NOW) -> None:
    evaluator = {
        "ProcessingJobName": name,
        "ProcessingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:processing-job/x",
        "ProcessingJobStatus": status,
        "ProcessingResources": {
            "ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.t3.medium", "VolumeSizeInGB": 1}
        },
        "AppSpecification": {"ImageUri": "x"},
        "CreationTime": at(created_at),
    }
    sagemaker.add_response("describe_processing_job", evaluator, {"ProcessingJobName": name})


def knows_no_evaluator(sagemaker: Stubber, job: TrainingJob) -> None:
    name = processing_job_name(job)
    for each in (name, name_of_later_job(name, job)):
        sagemaker.add_client_error("describe_processing_job", *NOT_FOUND, expected_params={"ProcessingJobName": each})


def lists_evaluators(sagemaker: Stubber, name: str, *found: tuple[str, str, str]) -> None:
    """(suffix of the name, status, exit message), newest first."""
    job = TrainingJob(name, ARN + name)
    summaries = [
        {
            "ProcessingJobName": evaluator_name(job) + suffix,
            "ProcessingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:processing-job/x",
            "CreationTime": at(NOW),
            "ProcessingJobStatus": status,
            **({"ExitMessage": message} if message else {}),
        }
        for suffix, status, message in found
    ]
    expected = {
        "NameContains": evaluator_mark(job),
        "CreationTimeAfter": at(CREATED - 1),
        "SortBy": ANY,
        "SortOrder": "Descending",
        "MaxResults": 100,
    }
    sagemaker.add_response("list_processing_jobs", {"ProcessingJobSummaries": summaries}, expected)


def gives_a_sign(run: str) -> None:
    """The evaluator of that run stores its progress: now, by the clock of S3, which no test can turn."""
    boto3.client("s3").put_object(Bucket="runs-bucket", Key=f"{run}/rule-output/progress.json", Body=b"{}")


def tags(sagemaker: Stubber, name: str, **found: str) -> None:
    answer = {"Tags": [{"Key": key.replace("_", ":"), "Value": value} for key, value in found.items()]}
    sagemaker.add_response("list_tags", answer, {"ResourceArn": ARN + name})


@pytest.mark.parametrize("status", ["Completed", "Failed", "Stopped"])
def test_a_job_whose_end_was_not_told_is_finished_and_recorded(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, status: str
) -> None:
    hold("digits")
    lists(sagemaker)
    describes(sagemaker, "digits", status)
    assert deliver(handle, TICK) == []
    assert {name: sent(url) for name, url in queues.items()} == {"start": [status], "record": [status]}


def test_a_job_that_is_stopping_is_recorded_and_not_finished(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver
) -> None:
    hold("digits")
    lists(sagemaker)
    describes(sagemaker, "digits", "Stopping")
    assert deliver(handle, TICK) == []
    assert {name: sent(url) for name, url in queues.items()} == {"start": [], "record": ["Stopping"]}


def test_a_sweep_that_dies_has_looked_at_the_jobs_that_nothing_watches(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three sweeps in a row two died in the looks at ended jobs, and a short job was never judged."""
    hold("ended")
    lists(sagemaker, "new")
    tags(sagemaker, "new", trackside_run="s3://runs-bucket/new")
    describes(sagemaker, "new", "InProgress")

    def die(*_: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(Sweep, "_look_whether_ended", die)
    with pytest.raises(SystemExit):
        deliver(handle, TICK)
    assert {name: sent(url) for name, url in queues.items()} == {"start": ["InProgress"], "record": ["InProgress"]}


def test_a_job_of_sagemaker_debugger_is_recorded_only(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver
) -> None:
    hold("theirs", run_uri="")
    lists(sagemaker)
    describes(sagemaker, "theirs", "Completed")
    assert deliver(handle, TICK) == []
    assert {name: sent(url) for name, url in queues.items()} == {"start": [], "record": ["Completed"]}


def test_statuses_that_no_event_told_are_recorded(sagemaker: Stubber, queues: dict[str, str], deliver: Deliver) -> None:
    hold("theirs", run_uri="")
    statuses = [
        {"RuleConfigurationName": "Overfit", "RuleEvaluationStatus": "IssuesFound", "LastModifiedTime": at(NOW)}
    ]
    lists(sagemaker, "theirs")
    describes(sagemaker, "theirs", "InProgress", DebugRuleEvaluationStatuses=statuses)
    assert deliver(handle, TICK) == []
    assert {name: sent(url) for name, url in queues.items()} == {"start": [], "record": ["InProgress"]}
    lists(sagemaker, "theirs")
    describes(sagemaker, "theirs", "InProgress")
    assert deliver(handle, TICK) == []
    assert sent(queues["record"]) == []


def test_a_tagged_job_that_nobody_told_of_is_started(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver
) -> None:
    lists(sagemaker, "digits")
    tags(sagemaker, "digits", trackside_run="s3://runs-bucket/digits", team="vision")
    describes(sagemaker, "digits", "InProgress")
    assert deliver(handle, TICK) == []
    told = {name: sent(url) for name, url in queues.items()}
    assert told == {"start": ["InProgress"], "record": ["InProgress"]}


@pytest.mark.parametrize(
    "tag",
    [
        pytest.param({}, id="none of ours"),
        pytest.param({"trackside_run": "s3://runs-bucket-staging/digits"}, id="of another deployment in this account"),
    ],
)
def test_a_job_without_our_tag_is_asked_about_once(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, tag: dict[str, str]
) -> None:
    lists(sagemaker, "private")
    tags(sagemaker, "private", team="vision", **tag)
    lists(sagemaker, "private")
    assert deliver(handle, TICK, TICK) == []
    assert all(sent(url) == [] for url in queues.values())


def test_a_watched_job_without_evaluator_is_started_and_one_with_it_is_asked_about_once(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver
) -> None:
    judged = hold("judged", run_uri="s3://runs-bucket/judged")
    gives_a_sign("judged")
    lists(sagemaker, "judged")
    describes_evaluator(sagemaker, processing_job_name(judged.job), "InProgress")
    lists(sagemaker, "judged")
    assert deliver(handle, TICK, TICK) == []
    assert sent(queues["start"]) == []
    forgotten = hold("forgotten")
    lists(sagemaker, "judged", "forgotten")
    knows_no_evaluator(sagemaker, forgotten.job)
    describes(sagemaker, "forgotten", "InProgress")
    tags(sagemaker, "forgotten", trackside_rules="overfit", team="vision")
    assert deliver(handle, TICK) == []
    assert tags_sent(queues["start"]) == [{"trackside:run": "s3://runs-bucket/digits", "trackside:rules": "overfit"}]


@pytest.mark.parametrize(
    ("found", "recorded", "watched"),
    [
        pytest.param({}, [], {}, id="without a tag: start_evaluation decides"),
        pytest.param(
            {"trackside_run": "s3://runs-bucket/a", "trackside_rules": "overfit"},
            ["InProgress"],
            {"trackside:run": "s3://runs-bucket/a", "trackside:rules": "overfit"},
            id="with the tag",
        ),
    ],
)
def test_where_jobs_without_the_tag_may_be_watched_their_starts_are_told(
    *,
    sagemaker: Stubber,
    queues: dict[str, str],
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    found: dict[str, str],
    recorded: list[str],
    watched: dict[str, str],
) -> None:
    monkeypatch.setenv("TRACKSIDE_SENDS_UNTAGGED", "true")
    monkeypatch.setenv("TRACKSIDE_UNTAGGED_SECONDS", "7200")  # longer than the job runs
    for _ in range(2):
        lists(sagemaker, "unknown")
        tags(sagemaker, "unknown", **found)
        describes(sagemaker, "unknown", "InProgress")
    assert deliver(handle, TICK, TICK) == []
    assert tags_sent(queues["start"]) == [watched, watched]
    assert sent(queues["record"]) == recorded * 2


def test_an_old_job_without_the_tag_is_told_once(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_SENDS_UNTAGGED", "true")
    lists(sagemaker, "old")
    tags(sagemaker, "old")
    describes(sagemaker, "old", "InProgress")
    lists(sagemaker, "old")
    assert deliver(handle, TICK, TICK) == []
    assert tags_sent(queues["start"]) == [{}]


def test_reads_page_by_page(sagemaker: Stubber, queues: dict[str, str], deliver: Deliver) -> None:
    hold("a")
    lists(sagemaker, "b", token="more")
    lists(sagemaker, "a", after="more")
    tags(sagemaker, "b")
    knows_no_evaluator(sagemaker, TrainingJob("a", ARN + "a", int(CREATED)))
    describes(sagemaker, "a", "Completed")
    assert deliver(handle, TICK) == []
    assert sent(queues["start"]) == [], "it ended while the sweep went on"


@pytest.mark.parametrize("operation", ["list_training_jobs", "describe_training_job"])
def test_throttling_returns_the_message_and_the_next_sweep_begins_anew(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, operation: str
) -> None:
    hold("digits")
    if operation != "list_training_jobs":
        lists(sagemaker)
    sagemaker.add_client_error(operation, "ThrottlingException", "Rate exceeded")
    assert deliver(handle, TICK) == ["message-0"]
    lists(sagemaker)
    describes(sagemaker, "digits", "Completed")
    assert deliver(handle, TICK) == []
    assert sent(queues["start"]) == ["Completed"]


@pytest.mark.parametrize(
    ("hours", "told"),
    [
        pytest.param(1, [], id="perhaps SageMaker does not know it yet"),
        pytest.param(25, ["Stopped"], id="who was deleted had ended"),
    ],
)
def test_a_job_that_is_not_found_holds_nothing_up(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, *, hours: int, told: list[str]
) -> None:
    old = JobRecord(TrainingJob("gone", f"{ARN}gone"), "InProgress", run_uri="s3://runs-bucket/gone")
    old = replace(old, created_at=NOW - hours * 3600, modified_at=-1.0)
    boto3.client("dynamodb").put_item(TableName="runs", Item=old.to_item(expires_at=None))
    hold("digits")
    lists(sagemaker)
    sagemaker.add_client_error("describe_training_job", "ValidationException", "Requested resource not found.")
    describes(sagemaker, "digits", "Completed")
    assert deliver(handle, TICK) == []
    assert sent(queues["record"]) == [*told, "Completed"]
    assert sent(queues["start"]) == [*told, "Completed"]


def test_an_item_that_nobody_can_read_hides_no_other(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver
) -> None:
    item = hold("odd").to_item(expires_at=None)
    boto3.client("dynamodb").put_item(TableName="runs", Item={**item, "status": {"N": "7"}})
    hold("digits")
    lists(sagemaker)
    describes(sagemaker, "digits", "Completed")
    assert deliver(handle, TICK) == []
    assert sent(queues["record"]) == ["Completed"]


@pytest.mark.parametrize(
    ("run", "sign_minutes_ago", "status", "is_silent"),
    [
        pytest.param("runs-bucket/digits", 29, None, False, id="a sign of late"),
        pytest.param("runs-bucket/digits", 31, "Completed", False, id="it has done its work"),
        pytest.param("elsewhere/digits", None, None, False, id="not a run of this deployment"),
        pytest.param("runs-bucket/digits", 31, "InProgress", True, id="it hangs"),
        pytest.param("runs-bucket/digits", None, "InProgress", True, id="no sign, ever"),
        pytest.param("runs-bucket/digits", 31, "Stopped", True, id="somebody stopped it"),
        pytest.param("runs-bucket/digits", None, "", True, id="it is no more"),
    ],
)
def test_an_evaluator_that_gives_no_sign_of_life_is_counted_and_named(
    sagemaker: Stubber,
    queues: dict[str, str],
    deliver: Deliver,
    log_lines: Callable[[], list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    run: str,
    sign_minutes_ago: int | None,
    status: str | None,
    is_silent: bool,
) -> None:
    hold("digits", run_uri=f"s3://{run}", evaluator="trackside-digits")
    if sign_minutes_ago is not None:
        gives_a_sign("digits")
        later = time.time() + sign_minutes_ago * 60
        monkeypatch.setattr("lambdas.reconcile.handler.time", SimpleNamespace(time=lambda: later))
    lists(sagemaker, "digits")
    if status is not None:
        message = "No issue found." if status == "Completed" else ""
        lists_evaluators(sagemaker, "digits", *([("", status, message)] if status else []))
    if status == "Stopped":  # whether another goes on is for start_evaluation to say
        describes_evaluator(sagemaker, evaluator_name(TrainingJob("digits", ARN + "digits")), status)
    assert deliver(handle, TICK) == []
    lines = log_lines()
    (metrics,) = [line for line in lines if "_aws" in line]
    assert (metrics["Sweeps"], metrics["WatchedJobs"], metrics["SilentEvaluators"]) == ([1], [1], [float(is_silent)])
    named = [line for line in lines if "trackside-digits" in str(line.get("message"))]
    assert [line["level"] for line in named] == ["WARNING"] * is_silent


def test_another_file_beside_the_progress_is_no_sign(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, counted: Callable[[], dict[str, list[float]]]
) -> None:
    hold("digits", evaluator="trackside-digits")
    boto3.client("s3").put_object(Bucket="runs-bucket", Key="digits/rule-output/progress.json.old", Body=b"{}")
    lists(sagemaker, "digits")
    lists_evaluators(sagemaker, "digits", ("", "InProgress", ""))
    assert deliver(handle, TICK) == []
    assert counted()["SilentEvaluators"] == [1]


def test_a_sweep_that_does_not_come_to_its_end_is_not_counted(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, counted: Callable[[], dict[str, list[float]]]
) -> None:
    sagemaker.add_client_error("list_training_jobs", "ThrottlingException", "Rate exceeded")
    assert deliver(handle, TICK) == ["message-0"]
    assert counted() == {}


def test_one_that_is_refused_hides_neither_the_others_nor_the_silent(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, counted: Callable[[], dict[str, list[float]]]
) -> None:
    hold("refused")
    hold("silent", evaluator="trackside-silent")
    lists(sagemaker, "silent")
    sagemaker.add_client_error("describe_training_job", "AccessDeniedException", "not you")
    lists_evaluators(sagemaker, "silent", ("", "InProgress", ""))
    assert deliver(handle, TICK) == ["message-0"]
    assert (found := counted())["SilentEvaluators"] == [1]
    assert found["Sweeps"] == [1]


@pytest.mark.parametrize(
    ("minutes", "sweeps"),
    [
        pytest.param(0, True, id="just now"),
        pytest.param(4, True, id="a second attempt"),
        pytest.param(6, False, id="the next has begun"),
        pytest.param(24 * 60, False, id="redriven a day later"),
        pytest.param(None, True, id="it does not say when"),
    ],
)
def test_a_late_sweep_leaves_its_work_to_the_next(
    sagemaker: Stubber,
    queues: dict[str, str],
    deliver: Deliver,
    counted: Callable[[], dict[str, list[float]]],
    *,
    minutes: int | None,
    sweeps: bool,
) -> None:
    """After an outage all that was put off would come at once."""
    late = {} if minutes is None else {"time": at(NOW - minutes * 60).strftime("%Y-%m-%dT%H:%M:%SZ")}
    if sweeps:
        lists(sagemaker)
    assert deliver(handle, {**TICK, **late}) == []
    assert ("Sweeps" in counted()) == sweeps


def test_a_job_of_a_spoke_is_not_taken_for_one_that_is_no_more(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver
) -> None:
    """It is not in this account's list, and this account could not ask for it."""
    arn = "arn:aws:sagemaker:us-east-1:210987654321:training-job/far"
    far = JobRecord(TrainingJob("far", arn), "InProgress", run_uri="s3://runs-bucket/210987654321/far", created_at=1.0)
    boto3.client("dynamodb").put_item(TableName="runs", Item=far.to_item(expires_at=None))
    lists(sagemaker)
    assert deliver(handle, TICK) == []
    assert all(sent(url) == [] for url in queues.values())


def test_a_sweep_remembers_that_stops_are_forbidden(
    account: Any, sagemaker: Stubber, queues: dict[str, str], deliver: Deliver
) -> None:
    ssm = boto3.client("ssm")
    ssm.put_parameter(Name=SWITCH, Value="false", Type="String")
    ssm.put_parameter(Name=SWITCH, Value="true", Overwrite=True)
    sagemaker.add_response("list_training_jobs", {"TrainingJobSummaries": []})

    assert deliver(handle, TICK) == []

    assert RunTable("runs", retention_days=1).forbade_stops()
