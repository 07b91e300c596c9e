"""What start_evaluation does in each mode, and after the end of an evaluator, in an account in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from benchmarks.fleet_kills import create_lease_table
from lambdas.shared.processing_jobs import evaluator_name
from lambdas.start_evaluation.handler import handle
from lambdas.start_evaluation.settings import StartEvaluationSettings
from tests.lambda_settings import made
from tests.lambdas.start_evaluation.test_chain import ENVIRONMENT, event
from tests.lambdas.start_evaluation.test_handler import STARTED
from trackside.contracts.deployment.evaluators import FLEET, PER_RULE
from trackside.contracts.deployment.lease import LeaseRecord
from trackside.contracts.event import TrainingJob
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest

JOB = TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01")
Deliver = Callable[..., list[str]]


@pytest.fixture
def deployed(account: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    """`deployed(mode)`: the function's settings; answers the queues' URLs."""

    def deploy(mode: str) -> dict[str, str]:
        sqs = boto3.client("sqs")
        urls = {name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("fleet", "failed", "notify")}
        create_lease_table(boto3.client("dynamodb"), "leases")
        settings = made(
            StartEvaluationSettings,
            image_uri="evaluator:0.1.0",
            role_arn="arn:aws:iam::123456789012:role/evaluator",
            run_bucket="runs-bucket",
            event_bus="trackside",
            evaluator_mode=mode,
            lease_table="leases",
            fleet_queue_url=urls["fleet"],
            failed_queue_url=urls["failed"],
            notify_queue_url=urls["notify"],
        )
        for name, value in settings.to_environment().items():
            monkeypatch.setenv(name, value)
        return urls

    return deploy


def messages(url: str) -> list[dict[str, Any]]:
    found = boto3.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
    return [json.loads(message["Body"]) for message in found]


def processing_jobs() -> set[str]:
    return {
        job["ProcessingJobName"] for job in boto3.client("sagemaker").list_processing_jobs()["ProcessingJobSummaries"]
    }


def test_the_fleet_is_told_once_however_often_the_start_is(
    deployed: Callable[[str], dict[str, str]], golden: Callable[..., Any], deliver: Deliver
) -> None:
    urls = deployed(FLEET)
    assert deliver(handle, golden("training_started"), golden("training_started", SecondaryStatus="Training")) == []
    (item,) = boto3.client("dynamodb").scan(TableName="leases")["Items"]
    lease = LeaseRecord.from_item(item)
    assert (lease.job.identity, lease.owner, lease.is_open) == (f"{JOB.arn}@1795226600", "", True)
    assert messages(urls["fleet"]) == [{"TrainingJobArn": JOB.arn}]
    assert processing_jobs() == set()


def test_each_rule_of_the_runs_request_gets_a_job(
    deployed: Callable[[str], dict[str, str]], golden: Callable[..., Any], deliver: Deliver
) -> None:
    deployed(PER_RULE)
    names = ["overfit", "mine"]
    request = RuleRequest((RuleConfiguration("overfit"), RuleConfiguration("exploding-tensor", name="mine")))
    boto3.client("s3").put_object(
        Bucket="runs-bucket", Key="digits-01/rule-request.json", Body=request.to_json().encode()
    )
    assert deliver(handle, golden("training_started"), golden("training_started")) == []
    assert processing_jobs() == {evaluator_name(JOB, configuration=name) for name in names}


def test_a_request_that_is_no_request_is_left_to_one_evaluator(
    deployed: Callable[[str], dict[str, str]], golden: Callable[..., Any], deliver: Deliver
) -> None:
    deployed(PER_RULE)
    boto3.client("s3").put_object(Bucket="runs-bucket", Key="digits-01/rule-request.json", Body=b"{")
    boto3.client("events").create_event_bus(Name="trackside")  # where the owner is told what is wrong
    assert deliver(handle, golden("training_started")) == []
    assert processing_jobs() == {evaluator_name(JOB)}


def test_a_link_that_handed_over_has_one_successor(deployed: Callable[[str], dict[str, str]], deliver: Deliver) -> None:
    urls = deployed("per-job")
    assert deliver(handle, event(), event()) == []
    assert processing_jobs() == {evaluator_name(JOB, link=2)}
    assert messages(urls["failed"]) == messages(urls["notify"]) == []


def test_who_is_no_longer_watched_is_told_and_a_sweep_does_not_tell_again(
    deployed: Callable[[str], dict[str, str]], deliver: Deliver
) -> None:
    urls = deployed("per-job")
    crashed = event(
        ProcessingJobStatus="Failed",
        ExitMessage="",
        FailureReason="AlgorithmError: , exit code: 137",
        ProcessingEndTime=5_100_000,
        Environment={**ENVIRONMENT, "TRACKSIDE_RESTARTS": "1"},
    )
    assert deliver(handle, crashed) == []
    assert messages(urls["failed"]) == messages(urls["notify"]) == [crashed]
    assert deliver(handle, {**crashed, "source": "trackside.reconcile"}) == []
    assert messages(urls["failed"]) == messages(urls["notify"]) == []
    assert processing_jobs() == set()


def test_a_successor_that_cannot_be_started_now_returns_to_the_queue(
    deployed: Callable[[str], dict[str, str]], sagemaker: Stubber, deliver: Deliver
) -> None:
    deployed("per-job")
    wanted = dict.fromkeys(
        (
            "ProcessingJobName",
            "AppSpecification",
            "RoleArn",
            "Environment",
            "ProcessingResources",
            "StoppingCondition",
            "Tags",
        ),
        ANY,
    )
    sagemaker.add_client_error("create_processing_job", "ResourceLimitExceeded", "quota", expected_params=wanted)
    assert deliver(handle, event()) == ["message-0"]
    sagemaker.add_response("create_processing_job", STARTED, wanted)
    assert deliver(handle, event()) == []
