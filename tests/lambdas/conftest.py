"""What the tests of the reactions share: golden events, SQS batches, an account in this process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from lambdas.shared.clients import client
from lambdas.shared.observability import logger, metrics
from tests.lambdas.recorded_calls import Calls
from trackside.contracts.deployment.run_table import SHELVES

EVENTS = Path(__file__).parent / "events"
REGION = "us-east-1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-calls", action="store_true", help="write tests/lambdas/calls.json again")


@pytest.fixture(scope="session")
def recorded_calls(request: pytest.FixtureRequest) -> Iterator[Calls]:
    """The calls that functions make; written at the end if that was asked for."""
    calls = Calls.of_file()
    yield calls
    if request.config.getoption("--write-calls", default=False):
        calls.write()


@pytest.fixture(autouse=True)
def _only_recorded_calls(recorded_calls: Calls, request: pytest.FixtureRequest) -> Iterator[None]:
    """A call that no test has made before is written down, so that the test of the roles sees it."""
    with recorded_calls.recorded() as unknown:
        yield
    if not request.config.getoption("--write-calls", default=False):
        assert not unknown, "not in calls.json; write it with: pytest tests/lambdas --write-calls"


@dataclass
class Context:
    """Lambda's context, as far as Powertools reads it."""

    function_name: str = "reaction"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:reaction"
    aws_request_id: str = "c0ffee00-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


@dataclass(frozen=True)
class Account:
    """The parts of the deployed account that reactions touch."""

    table: str
    run_table: str
    topic: str
    subscribed_queue: str
    bucket: str

    def messages(self) -> list[Mapping[str, Any]]:
        """What owners were told since the last look."""
        sqs = boto3.client("sqs", region_name=REGION)
        answer = sqs.receive_message(QueueUrl=self.subscribed_queue, MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in answer.get("Messages", ())]

    def items(self, prefix: str = "") -> dict[str, dict[str, Any]]:
        """Sort key -> item, of the table of runs, of all jobs."""
        found = boto3.client("dynamodb", region_name=REGION).scan(TableName=self.run_table)["Items"]
        return {item["sk"]["S"]: item for item in found if item["sk"]["S"].startswith(prefix)}

    def remembered(self) -> int:
        """How many actions the idempotency table holds."""
        return int(boto3.client("dynamodb", region_name=REGION).scan(TableName=self.table)["Count"])


@pytest.fixture
def golden() -> Callable[..., dict[str, Any]]:
    """`golden(name, **detail)`: the event of tests/lambdas/events/<name>.json, with changes to its detail."""

    def read(name: str, **detail: Any) -> dict[str, Any]:
        event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
        event["detail"].update(detail)
        return event

    return read


@pytest.fixture
def deliver() -> Callable[..., list[str]]:
    """`deliver(handle, *events)`: one batch with an SQS message for each event (or body). Returns the failed ids."""

    def send(handle: Callable[[dict[str, Any], Any], Any], *events: Mapping[str, Any] | str) -> list[str]:
        records = [
            {
                "messageId": f"message-{number}",
                "receiptHandle": "handle",
                "body": event if isinstance(event, str) else json.dumps(event),
                "attributes": {"ApproximateReceiveCount": "1"},
                "messageAttributes": {},
                "md5OfBody": "",
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:queue",
                "awsRegion": REGION,
            }
            for number, event in enumerate(events)
        ]
        answer = handle({"Records": records}, Context())
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    return send


class StandardOutput:
    """Whatever stands for it at the moment."""

    def write(self, text: str) -> None:
        sys.stdout.write(text)

    def flush(self) -> None:
        sys.stdout.flush()


@pytest.fixture
def log_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[dict[str, Any]]]:
    """`told()`: every JSON line that the functions printed since the last look: log lines and embedded metrics."""
    # Both were made when they were imported, of the stream and the variable of that moment.
    monkeypatch.setattr(logger.registered_handler, "stream", StandardOutput())
    monkeypatch.setattr(metrics, "service", "reaction")
    return lambda: [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]


@pytest.fixture
def counted(log_lines: Callable[[], list[dict[str, Any]]]) -> Callable[[], dict[str, list[float]]]:
    """`counted()`: name of each embedded metric -> its values since the last look, as CloudWatch would read them."""

    def read() -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for line in log_lines():
            for directive in line.get("_aws", {}).get("CloudWatchMetrics", ()):
                assert directive["Namespace"] == "Trackside/Reactions"
                assert ["service"] in directive["Dimensions"]
                for metric in directive["Metrics"]:
                    values = line[metric["Name"]]
                    found.setdefault(metric["Name"], []).extend(values if isinstance(values, list) else [values])
        return found

    return read


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test speaks to AWS, and no function's variables leak from one test to the next."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "TRACKSIDE_"))]:  # noqa: TID251  cleaning it
        monkeypatch.delenv(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    client.cache_clear()
    yield
    client.cache_clear()


@pytest.fixture
def account() -> Iterator[Account]:
    """An account with the table, the topic with a subscribed queue, and the bucket of runs."""
    with mock_aws():
        table = boto3.client("dynamodb", region_name=REGION).create_table(
            TableName="done",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )["TableDescription"]["TableName"]
        run_table = boto3.client("dynamodb", region_name=REGION).create_table(
            TableName="runs",
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": kind}
                for name, kind in (("pk", "S"), ("sk", "S"), ("shelf", "S"), ("created_at", "N"))
            ],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": SHELVES,
                    "KeySchema": [
                        {"AttributeName": "shelf", "KeyType": "HASH"},
                        {"AttributeName": "created_at", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
        )["TableDescription"]["TableName"]
        topic = boto3.client("sns", region_name=REGION).create_topic(Name="issues")["TopicArn"]
        queue = boto3.client("sqs", region_name=REGION).create_queue(QueueName="owner")["QueueUrl"]
        boto3.client("sns", region_name=REGION).subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:123456789012:owner"
        )
        boto3.client("s3", region_name=REGION).create_bucket(Bucket="runs-bucket")
        yield Account(table=table, run_table=run_table, topic=topic, subscribed_queue=queue, bucket="runs-bucket")


@pytest.fixture
def sagemaker() -> Iterator[Stubber]:
    """SageMaker's control plane, answering as each test says; every expected call must come, and no other."""
    with Stubber(client("sagemaker")) as stub:
        yield stub
        stub.assert_no_pending_responses()
