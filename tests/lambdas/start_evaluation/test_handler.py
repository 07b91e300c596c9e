"""A start is told many times; one processing job is started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from lambdas.shared.processing_jobs import processing_job_name
from lambdas.start_evaluation import started
from lambdas.start_evaluation.handler import handle
from lambdas.start_evaluation.settings import StartEvaluationSettings
from tests.lambda_settings import made
from tests.lambdas.reconcile.test_handler import describes_evaluator
from trackside.contracts.event import TrainingJob
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest

NAME = processing_job_name(TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"))
REQUEST = {
    "ProcessingJobName": NAME,
    "AppSpecification": {"ImageUri": "evaluator:0.1.0"},
    "RoleArn": "arn:aws:iam::123456789012:role/evaluator",
    "Environment": ANY,
    "ProcessingResources": ANY,
    "StoppingCondition": ANY,
    "Tags": ANY,
}
STARTED = {"ProcessingJobArn": f"arn:aws:sagemaker:us-east-1:123456789012:processing-job/{NAME}"}


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = made(
        StartEvaluationSettings,
        image_uri="evaluator:0.1.0",
        role_arn="arn:aws:iam::123456789012:role/evaluator",
        run_bucket="runs-bucket",
        event_bus="trackside",
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("account")
def test_starts_one_job_however_often_it_is_told(
    sagemaker: Stubber, golden: Callable[..., Any], deliver: Callable[..., Any]
) -> None:
    """One copy of the function asks SageMaker once; another, which knows nothing yet, learns that it is there."""
    sagemaker.add_response("create_processing_job", STARTED, REQUEST)
    event = golden("training_started")
    assert deliver(handle, event, golden("training_started", SecondaryStatus="Downloading")) == []
    assert deliver(handle, event) == []
    started.forget_all()
    sagemaker.add_client_error("create_processing_job", "ResourceInUse", "exists", expected_params=REQUEST)
    describes_evaluator(sagemaker, NAME, "InProgress")
    assert deliver(handle, event) == []
    assert deliver(handle, event) == []


@pytest.mark.usefixtures("account")
def test_an_end_that_overtakes_the_start_starts_nothing(
    sagemaker: Stubber, golden: Callable[..., Any], deliver: Callable[..., Any]
) -> None:
    assert deliver(handle, golden("training_stopped")) == []


@pytest.mark.parametrize(
    "code", [pytest.param("ThrottlingException", id="throttled"), pytest.param("ResourceLimitExceeded", id="quota")]
)
def test_what_may_work_later_returns_to_the_queue(
    sagemaker: Stubber, golden: Callable[..., Any], deliver: Callable[..., Any], code: str
) -> None:
    sagemaker.add_client_error("create_processing_job", code, "later", expected_params=REQUEST)
    assert deliver(handle, golden("training_started")) == ["message-0"]


def test_an_unreadable_event_goes_to_the_dead_letters(
    sagemaker: Stubber, golden: Callable[..., Any], deliver: Callable[..., Any]
) -> None:
    assert deliver(handle, "}", golden("training_started", TrainingJobName=7)) == ["message-0", "message-1"]


def starts(monkeypatch: pytest.MonkeyPatch, request: RuleRequest | None) -> None:
    """Settings that let custom rules run, and a run with that request."""
    monkeypatch.setenv("TRACKSIDE_CUSTOM_RULES_FROM", "s3://rules-bucket/approved")
    monkeypatch.setenv("TRACKSIDE_CUSTOM_RULE_ROLE_ARN", "arn:aws:iam::123456789012:role/custom-rule")
    monkeypatch.setenv("TRACKSIDE_CUSTOM_RULE_IMAGE_URI", "custom-rule:0.1.0")
    if request is not None:
        body = request.to_json().encode()
        boto3.client("s3").put_object(Bucket="runs-bucket", Key="digits-01/rule-request.json", Body=body)


def jobs() -> dict[str, str]:
    """Name -> role of every processing job there is."""
    sagemaker = boto3.client("sagemaker")
    names = [job["ProcessingJobName"] for job in sagemaker.list_processing_jobs()["ProcessingJobSummaries"]]
    found = (sagemaker.describe_processing_job(ProcessingJobName=name) for name in names)
    return {job["ProcessingJobName"]: job["RoleArn"].rpartition("/")[2] for job in found}


MINE = RuleConfiguration("Mine", name="mine", source="s3://rules-bucket/approved/mine.py")
ELSEWHERE = RuleConfiguration("Mine", name="elsewhere", source="s3://runs-bucket/digits-01/mine.py")


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("request_", "roles"),
    [
        pytest.param(RuleRequest((MINE,)), ["custom-rule", "evaluator"], id="a file that may run"),
        pytest.param(RuleRequest((ELSEWHERE,)), ["evaluator"], id="a file that may not"),
        pytest.param(RuleRequest((RuleConfiguration("overfit"),)), ["evaluator"], id="no file"),
        pytest.param(None, ["evaluator"], id="no request"),
    ],
)
def test_what_is_started_beside_the_evaluator(
    golden: Callable[..., Any],
    deliver: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    request_: RuleRequest | None,
    roles: list[str],
) -> None:
    starts(monkeypatch, request_)
    assert deliver(handle, golden("training_started")) == []
    assert sorted(jobs().values()) == roles


@pytest.mark.usefixtures("account")
def test_a_later_delivery_starts_what_an_earlier_one_could_not(
    sagemaker: Stubber,
    golden: Callable[..., Any],
    deliver: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts(monkeypatch, RuleRequest((MINE,)))
    custom = {"ProcessingJobName": ANY, **dict.fromkeys(REQUEST, ANY)}
    sagemaker.add_response("create_processing_job", STARTED, custom)
    sagemaker.add_client_error("create_processing_job", "ResourceLimitExceeded", "quota", expected_params=custom)
    assert deliver(handle, golden("training_started")) == ["message-0"]
    sagemaker.add_response("create_processing_job", STARTED, custom)
    assert deliver(handle, golden("training_started")) == []


@pytest.mark.usefixtures("account")
def test_a_request_that_cannot_be_read_returns_to_the_queue_after_the_evaluator_was_started(
    golden: Callable[..., Any], deliver: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts(monkeypatch, None)
    boto3.client("s3").delete_bucket(Bucket="runs-bucket")
    assert deliver(handle, golden("training_started")) == ["message-0"]
    assert list(jobs().values()) == ["evaluator"]
