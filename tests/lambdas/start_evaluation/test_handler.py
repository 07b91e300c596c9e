"""A start is told many times; one processing job is started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.stub import ANY, Stubber

from lambdas.start_evaluation.handler import handle
from lambdas.start_evaluation.logic import processing_job_name
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.event import TrainingJob

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
    settings = StartEvaluationSettings(
        image_uri="evaluator:0.1.0",
        role_arn="arn:aws:iam::123456789012:role/evaluator",
        run_bucket="runs-bucket",
        event_bus="trackside",
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)


def test_starts_one_job_however_often_it_is_told(
    sagemaker: Stubber, golden: Callable[..., Any], deliver: Callable[..., Any]
) -> None:
    sagemaker.add_response("create_processing_job", STARTED, REQUEST)
    for _ in range(2):
        sagemaker.add_client_error("create_processing_job", "ResourceInUse", "exists", expected_params=REQUEST)
    event = golden("training_started")
    assert deliver(handle, event, golden("training_started", SecondaryStatus="Downloading")) == []
    assert deliver(handle, event) == []


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
