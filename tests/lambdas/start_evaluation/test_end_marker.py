"""The end of a run is marked where no marker lies, and a marker of the run's own job is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import boto3
import pytest

from lambdas.shared.decisions import Nothing
from lambdas.start_evaluation.end_marker import MarkEnd, decide_end
from lambdas.start_evaluation.handler import handle
from lambdas.start_evaluation.settings import StartEvaluationSettings
from tests.lambda_settings import made
from trackside.contracts.event import TERMINAL_JOB_STATUSES, TrainingJob, TrainingJobStateChange

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"
KEY = "digits-01/debug-output/training_job_end.ts"


def settle(monkeypatch: pytest.MonkeyPatch, bucket: str) -> None:
    for name, value in made(StartEvaluationSettings, run_bucket=bucket).to_environment().items():
        monkeypatch.setenv(name, value)


def test_marks_the_end_once(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, account.bucket)
    assert deliver(handle, golden("training_stopped"), golden("training_stopped", TrainingJobStatus="Failed")) == []
    listed = boto3.client("s3").list_objects_v2(Bucket=account.bucket)["Contents"]
    assert [entry["Key"] for entry in listed] == [KEY]
    assert marker(account) == f"{ARN}@1795226600"


OTHERS = f"{ARN.replace('digits-01', 'mallory')}@1795226600"


@pytest.mark.parametrize(
    ("owner", "before", "after"),
    [
        pytest.param("", "", f"{ARN}@1795226600", id="nobody's yet"),
        pytest.param(ARN, "", f"{ARN}@1795226600", id="its own, as a former release claimed it"),
        pytest.param(f"{ARN}@1795226600", "", f"{ARN}@1795226600", id="its own"),
        pytest.param(f"{ARN}@1795226600", OTHERS, f"{ARN}@1795226600", id="in place of another job's marker"),
        pytest.param(OTHERS, "", None, id="another job's"),
        pytest.param(f"{ARN}@1700000000", "", None, id="that of an earlier job of this name"),
        pytest.param(OTHERS, OTHERS, OTHERS, id="another job's, which has ended"),
    ],
)
def test_only_the_runs_own_job_ends_it(
    *,
    account: Any,
    golden: Callable[..., Any],
    deliver: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    owner: str,
    before: str,
    after: str | None,
) -> None:
    """Any job could name the run of another in its tag: when it ended, so did the judging of the other."""
    settle(monkeypatch, account.bucket)
    for key, text in ((KEY, before), ("digits-01/rule-output/training-job.txt", owner)):
        if text:
            boto3.client("s3").put_object(Bucket=account.bucket, Key=key, Body=text.encode())
    assert deliver(handle, golden("training_stopped"), golden("training_stopped")) == []
    assert marker(account) == after


def marker(account: Any) -> str | None:
    """The content of the end marker; None without one."""
    s3 = boto3.client("s3")
    try:
        return str(s3.get_object(Bucket=account.bucket, Key=KEY)["Body"].read().decode())
    except s3.exceptions.NoSuchKey:
        return None


def test_leaves_the_marker_of_the_job_itself(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, account.bucket)
    s3 = boto3.client("s3")
    s3.put_object(Bucket=account.bucket, Key=KEY, Body=b"by the job")
    assert deliver(handle, golden("training_stopped")) == []
    assert s3.get_object(Bucket=account.bucket, Key=KEY)["Body"].read() == b"by the job"


def test_a_missing_bucket_returns_the_message(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, "gone-bucket")
    tags = {"trackside:run": "s3://gone-bucket/digits-01"}
    assert deliver(handle, golden("training_stopped", Tags=tags), "{}") == ["message-0", "message-1"]


ENDED = TrainingJobStateChange(
    job=TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"),
    status="Failed",
    secondary_status="Failed",
    tags={"trackside:run": "s3://runs-bucket/team/digits-01/"},
)
SETTINGS = made(StartEvaluationSettings, run_bucket="runs-bucket")


@pytest.mark.parametrize("status", TERMINAL_JOB_STATUSES)
def test_marks_the_end_however_the_job_ended(status: str) -> None:
    folder = "team/digits-01"
    marker, owner = f"{folder}/debug-output/training_job_end.ts", f"{folder}/rule-output/training-job.txt"
    expected = MarkEnd("runs-bucket", marker, owner, ENDED.job)
    assert decide_end(replace(ENDED, status=status), SETTINGS) == expected


def test_of_an_address_that_many_jobs_share_the_jobs_own_run_is_marked() -> None:
    shared = replace(ENDED, tags={"trackside:run": "s3://runs-bucket/tuning-7/@job"})
    decision = decide_end(shared, SETTINGS)
    assert isinstance(decision, MarkEnd)
    assert decision.key == "tuning-7/digits-01/debug-output/training_job_end.ts"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(replace(ENDED, status="InProgress"), id="running"),
        pytest.param(replace(ENDED, status="Stopping"), id="stopping: it may still write"),
        pytest.param(replace(ENDED, tags={}), id="not opted in"),
        pytest.param(replace(ENDED, tags={"trackside:run": "s3://others/run"}), id="another bucket"),
        pytest.param(replace(ENDED, tags={"trackside:run": "nonsense"}), id="no location"),
        pytest.param(replace(ENDED, tags={**ENDED.tags, "trackside:watch": "status"}), id="its states only"),
        pytest.param(replace(ENDED, tags={**ENDED.tags, "trackside:watch": "no"}), id="not watched"),
    ],
)
def test_marks_nothing(change: TrainingJobStateChange) -> None:
    assert isinstance(decide_end(change, SETTINGS), Nothing)
