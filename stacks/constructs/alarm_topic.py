"""A topic to which only CloudWatch's alarms of this account may publish."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.constructs.encrypted_topic import EncryptedTopic


class AlarmTopic(EncryptedTopic):
    """The topic of alarms. The key's own policy must let CloudWatch use it."""

    def __init__(
        self, scope: Construct, construct_id: str, *, key: kms.IKey, display_name: str, emails: Sequence[str]
    ) -> None:
        super().__init__(scope, construct_id, key=key, display_name=display_name, emails=emails)
        self.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsPublish",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )
