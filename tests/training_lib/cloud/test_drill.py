"""A drill where AWS does not answer as it should. Where all goes well: tests/journeys/test_trackside_drill.py."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from trackside.cloud.calls import Calls
from trackside.cloud.drill import OUTPUTS, Drill, DrillSettings
from trackside.contracts.errors import AccessDeniedError


def refusal(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


class Account:
    """All services in one, as far as a drill of which no job ever runs meets them."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Any]] = {}
        self.asked: list[str] = []

    @property
    def meta(self) -> Any:
        return type("Meta", (), {"region_name": "us-east-1", "endpoint_url": "https://sagemaker"})

    def __getattr__(self, name: str) -> Any:
        def call(**_: Any) -> Any:
            self.asked.append(name)
            answers = self.answers.get(name, [{}])
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


@pytest.fixture
def account() -> Account:
    account = Account()
    outputs = [{"OutputKey": name, "OutputValue": name} for name in OUTPUTS]
    account.answers |= {
        "describe_stacks": [{"Stacks": [{"Outputs": outputs}]}],
        "get_caller_identity": [{"Arn": "arn:aws:iam::123456789012:user/ada", "Account": "123456789012"}],
        "create_queue": [{"QueueUrl": "queue"}],
        "get_queue_attributes": [{"Attributes": {"QueueArn": "arn:queue"}}],
        "subscribe": [{"SubscriptionArn": "arn:subscription"}],
        "list_processing_jobs": [{"ProcessingJobSummaries": []}],
        "describe_training_job": [refusal("ValidationException", "Requested resource not found.")],
        "list_objects_v2": [{"Contents": [{"Key": "trackside-drill/x/rule-request.json"}]}, {}],
    }
    return account


def test_where_no_job_could_be_started_none_is_left(account: Account) -> None:
    account.answers["create_training_job"] = [refusal("AccessDeniedException", "no")]
    drill = Drill(Calls(lambda _: account), DrillSettings())
    with pytest.raises(AccessDeniedError):
        drill.begin()
    done, left = drill.clean_up()
    assert left == ()
    assert {"subscription removed", "queue deleted", "run of 1 objects deleted"} == set(done)


def test_one_call_that_is_refused_does_not_break_the_drill_off(account: Account) -> None:
    """It would leave half an hour of waiting, and a job, for nothing."""
    now = [0.0]
    drill = Drill(
        Calls(lambda _: account),
        DrillSettings(timeout_seconds=30, poll_seconds=10),
        clock=lambda: now[0],
        sleep=lambda seconds: now.__setitem__(0, now[0] + seconds),
    )
    drill.begin()
    busy = refusal("ThrottlingException", "Rate exceeded")
    account.answers["describe_training_job"] = [
        busy,
        {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Starting"},
    ]
    account.answers |= {
        "describe_alarms": [{"MetricAlarms": [{"StateValue": "OK"}]}],
        "get_metric_statistics": [busy],
        "query": [{"Items": []}],
        "list_objects_v2": [{}],
    }
    report = drill.follow(lambda _: None, lambda _: None)
    why = {missing.effect: missing.why for missing in report.missing}
    assert why["training job runs"] == "not within 30 s"
    assert why["metric is published"].startswith("not within 30 s; the last look failed: ")
    assert "Rate exceeded" in why["metric is published"]
