"""A bench: a local account, and the few things that nearly every test puts into it."""

from __future__ import annotations

import io
import json
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from trackside_localaccount import LocalAccount
from trackside_localaccount.provision import create_inbox, create_role
from trackside_localaccount.start_time import is_late

ROLE = "arn:aws:iam::123456789012:role/bench"
EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


@dataclass(frozen=True)
class Bench:
    account: LocalAccount

    def queue(self, name: str, **attributes: str) -> tuple[str, str]:
        """Its URL and its ARN. Services may send to it."""
        url = create_inbox(self.account, name)
        if attributes:
            self.account.client("sqs").set_queue_attributes(QueueUrl=url, Attributes=attributes)
        return url, f"arn:aws:sqs:us-east-1:123456789012:{name}"

    def topic(self, name: str) -> str:
        """Its ARN. Services may publish to it."""
        allow = {"Effect": "Allow", "Principal": "*", "Action": "sns:Publish", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        arn: str = self.account.client("sns").create_topic(Name=name, Attributes={"Policy": policy})["TopicArn"]
        return arn

    def function(self, name: str, source: str, **settings: Any) -> str:
        """Deploys `source` as module `code` with the handler `handle`; its ARN."""
        lambdas = self.account.client("lambda")
        asked = {"Runtime": "python3.12", "Role": ROLE, "Handler": "code_.handle", "Timeout": 20, **settings}
        asked.setdefault("Code", {"ZipFile": self.zipped({"code_.py": textwrap.dedent(source)})})
        arn: str = lambdas.create_function(FunctionName=name, **asked)["FunctionArn"]
        for service in ("events", "sns"):
            lambdas.add_permission(
                FunctionName=name,
                StatementId=service,
                Action="lambda:InvokeFunction",
                Principal=f"{service}.amazonaws.com",
            )
        return arn

    def rule(self, name: str, pattern: dict[str, Any], *targets: dict[str, Any], **settings: Any) -> str:
        """Its ARN."""
        events = self.account.client("events")
        arn: str = events.put_rule(Name=name, EventPattern=json.dumps(pattern), **settings)["RuleArn"]
        bus = {"EventBusName": settings["EventBusName"]} if "EventBusName" in settings else {}
        events.put_targets(Rule=name, Targets=[{"Id": str(n), **target} for n, target in enumerate(targets)], **bus)
        return arn

    def put_event(self, source: str, detail: dict[str, Any], **more: Any) -> None:
        self.put_events(source, [detail], **more)

    def put_events(self, source: str, details: Sequence[dict[str, Any]], **more: Any) -> None:
        """Send up to ten events in one request."""
        entries = [{"Source": source, "DetailType": "test", "Detail": json.dumps(one), **more} for one in details]
        answer = self.account.client("events").put_events(Entries=entries)
        assert answer["FailedEntryCount"] == 0, answer

    def receive(self, url: str, count: int = 1) -> list[dict[str, Any]]:
        """Takes `count` messages from a queue."""
        sqs = self.account.client("sqs")
        messages: list[Any] = []
        began = time.monotonic()
        while len(messages) < count and not is_late(time.monotonic() - began):
            answer = sqs.receive_message(
                QueueUrl=url, WaitTimeSeconds=1, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
            )
            for message in answer.get("Messages", []):
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                messages.append(message)
        assert len(messages) >= count, f"{len(messages)} of {count} messages arrived"
        return messages

    def attribute(self, url: str, name: str) -> int:
        answer = self.account.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[name])
        return int(answer["Attributes"][name])

    def training_job(self, name: str, *command: str, **more: Any) -> None:
        specification = {"TrainingImage": "image", "TrainingInputMode": "File"}
        if command:
            specification["ContainerEntrypoint"] = list(command)  # type: ignore[assignment]
        asked: dict[str, Any] = {
            "AlgorithmSpecification": specification,
            "RoleArn": ROLE,
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        }
        self.account.client("sagemaker").create_training_job(TrainingJobName=name, **(asked | more))

    def processing_job(self, name: str, *command: str, image: str = "image", **more: Any) -> None:
        specification: dict[str, Any] = {"ImageUri": image}
        if command:
            specification["ContainerEntrypoint"] = list(command)
        cluster = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}
        self.account.client("sagemaker").create_processing_job(
            ProcessingJobName=name,
            AppSpecification=specification,
            ProcessingResources={"ClusterConfig": cluster},
            **({"RoleArn": ROLE} | more),
        )

    def eventually(self, look: Callable[[], Any]) -> Any:
        """What `look` returns, once that is true: for what another process writes when it pleases."""
        began = time.monotonic()
        while not (seen := look()):
            assert not is_late(time.monotonic() - began), "it never came"
            self.account.hops.after(len(self.account.hops), within_seconds=0.05)
        return seen

    @staticmethod
    def zipped(files: dict[str, str]) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        return packed.getvalue()


def open_account(**settings: Any) -> LocalAccount:
    """With the role that functions need, and patience suited to a test."""
    usual = {"stop_grace_seconds": 0.3, "retry_seconds": 0.05, "alarm_tick_seconds": 0.05}
    account = LocalAccount(**(usual | settings))
    create_role(account, "bench", [EVERYTHING], services=("lambda", "sagemaker", "events"))
    return account


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """One for a whole file: names must differ."""
    with open_account() as account:
        yield Bench(account)


@pytest.fixture
def account_with() -> Iterator[Callable[..., Bench]]:
    """Opens one of its own for a test, with these settings. Not beside `bench`: one account at a time."""
    opened: list[LocalAccount] = []

    def open_one(**settings: Any) -> Bench:
        opened.append(open_account(**settings))
        return Bench(opened[-1])

    yield open_one
    for account in opened:
        account.close()
