"""A topic that people subscribe to, encrypted with the deployment's key, over TLS only."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge


class EncryptedTopic(sns.Topic):
    """A topic for people. Each of `emails` gets one message and must confirm it before others follow."""

    def __init__(
        self, scope: Construct, construct_id: str, *, key: kms.IKey, display_name: str, emails: Sequence[str]
    ) -> None:
        super().__init__(scope, construct_id, master_key=key, display_name=display_name, enforce_ssl=True)
        for email in emails:
            acknowledge(
                self.add_subscription(subscriptions.EmailSubscription(email)),
                {"Serverless-SNSRedrivePolicy": "What a mailbox refuses stands in the table of runs."},
            )
