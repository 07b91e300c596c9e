"""The marker is put where none lies, and one that lies there is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest

from lambdas.finish_run.handler import handle
from lambdas.finish_run.settings import FinishRunSettings
from tests.lambda_settings import made

KEY = "digits-01/debug-output/training_job_end.ts"


def settle(monkeypatch: pytest.MonkeyPatch, bucket: str) -> None:
    for name, value in made(FinishRunSettings, run_bucket=bucket).to_environment().items():
        monkeypatch.setenv(name, value)


def test_marks_the_end_once(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, account.bucket)
    assert deliver(handle, golden("training_stopped"), golden("training_stopped", TrainingJobStatus="Failed")) == []
    listed = boto3.client("s3").list_objects_v2(Bucket=account.bucket)["Contents"]
    assert [(entry["Key"], entry["Size"]) for entry in listed] == [(KEY, 0)]


def test_leaves_the_marker_of_the_job_itself(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, account.bucket)
    s3 = boto3.client("s3")
    s3.put_object(Bucket=account.bucket, Key=KEY, Body=b"by the job")
    assert deliver(handle, golden("training_stopped")) == []
    assert s3.get_object(Bucket=account.bucket, Key=KEY)["Body"].read() == b"by the job"


def test_a_running_job_is_not_marked(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, account.bucket)
    assert deliver(handle, golden("training_started")) == []
    assert boto3.client("s3").list_objects_v2(Bucket=account.bucket)["KeyCount"] == 0


def test_a_missing_bucket_returns_the_message(
    account: Any, golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, "gone-bucket")
    tags = {"trackside:run": "s3://gone-bucket/digits-01"}
    assert deliver(handle, golden("training_stopped", Tags=tags), "{}") == ["message-0", "message-1"]
