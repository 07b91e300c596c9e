"""Existing resources as objects of CDK, in place of those that a deployment would make."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns


@dataclass(frozen=True)
class ExistingResources:
    """Existing resources. None: the settings name one, or the deployment makes it.

    Attributes:
        bucket: Bucket of runs. Needs `key`, the key that it encrypts with by default.
        key: Key of runs, tables and topics.
        bus: Bus of verdicts.
        owner_topic: Topic of notices to owners.
        alarm_topic: Topic of the alarms about Trackside itself. Must let `cloudwatch.amazonaws.com` publish.
    """

    bucket: s3.IBucket | None = None
    key: kms.IKey | None = None
    bus: events.IEventBus | None = None
    owner_topic: sns.ITopic | None = None
    alarm_topic: sns.ITopic | None = None


NONE_EXISTS = ExistingResources()
