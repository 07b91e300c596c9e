"""A role, and a queue behind topics: nearly every test puts them into an account first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

_VERSION = "2012-10-17"


class Account(Protocol):
    """The part of an account that is needed here: its clients."""

    def client(self, service: str) -> Any:
        """A boto3 client."""


def create_role(
    account: Account,
    name: str,
    statements: Sequence[Mapping[str, Any]] = (),
    *,
    services: Sequence[str] = ("sagemaker",),
    path: str = "/",
) -> str:
    """Make a role with one policy, and return its ARN.

    Args:
        account: Account of the role.
        name: Name of the role.
        statements: Statements of its policy, as IAM has them; none: the role may do nothing.
        services: Services that may act as the role.
        path: Path of the role.
    """
    iam = account.client("iam")
    principal = {"Service": [f"{service}.amazonaws.com" for service in services]}
    trust = _document([{"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}])
    made = iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=trust)
    if statements:
        iam.put_role_policy(RoleName=name, PolicyName="rights", PolicyDocument=_document(statements))
    return str(made["Role"]["Arn"])


def create_inbox(account: Account, name: str, *topics: str) -> str:
    """Make a queue that topics and rules of EventBridge may send to, subscribe it to topics, and return its URL.

    Args:
        account: Account of the queue.
        name: Name of the queue.
        topics: ARNs of topics.
    """
    sqs, sns = account.client("sqs"), account.client("sns")
    principal = {"Service": ["sns.amazonaws.com", "events.amazonaws.com"]}
    policy = _document([{"Effect": "Allow", "Principal": principal, "Action": "sqs:SendMessage", "Resource": "*"}])
    url = sqs.create_queue(QueueName=name, Attributes={"Policy": policy})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    for topic in topics:
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return str(url)


def _document(statements: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"Version": _VERSION, "Statement": list(statements)})
