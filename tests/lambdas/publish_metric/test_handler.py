"""What CloudWatch holds afterwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from lambdas.publish_metric.handler import handle
from lambdas.publish_metric.settings import PublishMetricSettings
from tests.lambda_settings import made

AT = datetime.fromtimestamp(1795226674, tz=timezone.utc)


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lambdas.publish_metric.handler.time", SimpleNamespace(time=AT.timestamp))
    for name, value in made(PublishMetricSettings, idempotency_table="done").to_environment().items():
        monkeypatch.setenv(name, value)


def counted(**dimensions: str) -> float:
    answer = boto3.client("cloudwatch").get_metric_statistics(
        Namespace="Trackside",
        MetricName="IssuesFound",
        Dimensions=[{"Name": name, "Value": value} for name, value in dimensions.items()],
        StartTime=AT - timedelta(minutes=5),
        EndTime=AT + timedelta(minutes=5),
        Period=600,
        Statistics=["Sum"],
    )
    return float(sum(point["Sum"] for point in answer["Datapoints"]))


def series() -> list[dict[str, str]]:
    """The dimensions of every series. (moto, unlike CloudWatch, adds up all series that share those asked for.)"""
    metrics = boto3.client("cloudwatch").list_metrics(Namespace="Trackside")["Metrics"]
    return [{each["Name"]: each["Value"] for each in metric["Dimensions"]} for metric in metrics]


ACROSS = {"RuleName": "vanishing-gradient", "Status": "IssuesFound"}


@pytest.mark.usefixtures("account")
def test_counts_once_for_the_job_and_across_jobs(golden: Callable[..., Any], deliver: Callable[..., Any]) -> None:
    event = golden("ours_issues_found")
    assert deliver(handle, event, event) == []
    assert deliver(handle, event) == []
    assert counted(TrainingJobName="digits-01", **ACROSS) == 1
    of_all = {"Status": "IssuesFound"}
    assert sorted(series(), key=len) == [of_all, ACROSS, {"TrainingJobName": "digits-01", **ACROSS}]


@pytest.mark.usefixtures("account")
def test_each_job_is_counted_for_itself(golden: Callable[..., Any], deliver: Callable[..., Any]) -> None:
    arn = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-02"
    other = golden("ours_issues_found", TrainingJobName="digits-02", TrainingJobArn=arn)
    assert deliver(handle, golden("ours_issues_found"), other) == []
    assert counted(TrainingJobName="digits-01", **ACROSS) == 1
    assert counted(TrainingJobName="digits-02", **ACROSS) == 1


@pytest.mark.usefixtures("account")
def test_a_verdict_that_asks_for_no_metric_counts_nothing(
    golden: Callable[..., Any], deliver: Callable[..., Any]
) -> None:
    assert deliver(handle, golden("ours_issues_found", Actions=["Notify"])) == []
    assert series() == []
