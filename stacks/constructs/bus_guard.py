"""The bus of verdicts takes events from the roles of this deployment only."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CfnResource, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from trackside.contracts.event import SOURCE

STATEMENT = "OnlyRolesOfTrackside"


def guard_bus(scope: Construct, bus_name: str, *, senders: Sequence[iam.IRole], is_shared: bool = False) -> None:
    """Refuse the events of everybody else, also of those who may put events on any bus of the account.

    A verdict stops training jobs, so nobody else may send one. AWS's own services are let through: a replay of the
    archive is theirs. On a bus that is `is_shared` with others, only events in our name are refused.
    """
    stack = Stack.of(scope)
    in_our_name = {"StringEquals": {"events:source": SOURCE}} if is_shared else {}
    statement = {
        "Sid": STATEMENT,
        "Effect": "Deny",
        "Principal": "*",
        "Action": "events:PutEvents",
        "Resource": stack.format_arn(service="events", resource="event-bus", resource_name=bus_name),
        "Condition": {
            "ArnNotEquals": {"aws:PrincipalArn": [role.role_arn for role in senders]},
            "Bool": {"aws:PrincipalIsAWSService": "false"},
            **in_our_name,
        },
    }
    # Not events.CfnEventBusPolicy: its deprecated properties make each synthesis print a warning.
    CfnResource(
        scope,
        "BusGuard",
        type="AWS::Events::EventBusPolicy",
        properties={"EventBusName": bus_name, "StatementId": STATEMENT, "Statement": statement},
    )
