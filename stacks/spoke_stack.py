"""A spoke: an account with training jobs that another one, the hub, watches.

It forwards events, and lets the hub stop.
"""

from __future__ import annotations

from typing import Any

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.alarm import TopicAlarm
from stacks.constructs.stop_permission import let_stop
from stacks.deployment_settings import DeploymentSettings
from stacks.event_patterns import official_rule_status_changed, training_changed
from stacks.measures import waiting
from stacks.spokes import hub_role_name, role_arn, spoke_role_name


class SpokeStack(Stack):
    """All parts of a spoke. `hub_account` names the hub, which must have this account among `spoke_accounts`."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: DeploymentSettings) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=settings.stack_name(construct_id),
            description=f"Trackside: a spoke of {settings.accounts.hub_account}",
        )
        self._settings = settings
        dead_letters = self._create_dead_letters()
        self._forward(dead_letters)
        if settings.place.alarm_topic_arn:
            self._watch(dead_letters)
        role = self._create_stop_role()
        CfnOutput(self, "StopRoleArn", value=role.role_arn, description="The hub stops jobs with it")
        CfnOutput(self, "DeadLettersUrl", value=dead_letters.queue_url, description="Events that the hub did not take")

    def _create_dead_letters(self) -> sqs.Queue:
        queue = sqs.Queue(
            self,
            "DeadLetters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        acknowledge(
            queue,
            {
                "AwsSolutions-SQS3": "This is where others' dead letters go.",
                "Serverless-SQSRedrivePolicy": "This is where others' dead letters go.",
            },
        )
        return queue

    def _forward(self, dead_letters: sqs.Queue) -> None:
        where = f"arn:{self.partition}:events:{self.region}:{self._settings.accounts.hub_account}:event-bus/default"
        role = iam.Role(
            self,
            "Forwarder",
            description="Trackside: notifies the hub of training jobs",
            assumed_by=iam.ServicePrincipal(
                "events.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": self.account}}
            ),
        )
        hub = events.EventBus.from_event_bus_arn(self, "Hub", where)
        for construct_id, pattern, what in (
            ("TrainingChanged", training_changed(), "A training job that opted in is in another state"),
            ("OfficialRules", official_rule_status_changed(), "A rule of SageMaker Debugger has a verdict"),
        ):
            events.Rule(
                self,
                construct_id,
                description=f"{what}: the hub is notified",
                event_pattern=pattern,
                targets=[targets.EventBus(hub, role=role, dead_letter_queue=dead_letters)],
            )

    def _watch(self, dead_letters: sqs.Queue) -> None:
        """Create alarms in the spoke: the hub cannot know of an event that it did not get, and sweeps only itself."""
        TopicAlarm(
            self,
            "SpokeDeadLetters",
            topic=sns.Topic.from_topic_arn(self, "Alarms", self._settings.place.alarm_topic_arn),
            metric=waiting(dead_letters),
            threshold=1,
            description=f"The hub {self._settings.accounts.hub_account} did not take an event of this account for a "
            f"day: it lies in {dead_letters.queue_name}. Is this account among its spoke_accounts?",
        )

    def _create_stop_role(self) -> iam.Role:
        """Return a role that trusts one role of the hub by its name, even before that exists."""
        settings = self._settings
        condition: dict[str, Any] = {"sts:ExternalId": settings.event_bus_name}
        if settings.accounts.organization:
            condition["aws:PrincipalOrgID"] = settings.accounts.organization
        trusted = role_arn(self, settings.accounts.hub_account, hub_role_name(settings, self.region))
        role = iam.Role(
            self,
            "Stop",
            role_name=spoke_role_name(settings, self.region),
            description=f"Trackside: the hub {settings.accounts.hub_account} stops tagged training jobs with it",
            assumed_by=iam.PrincipalWithConditions(
                iam.AccountPrincipal(settings.accounts.hub_account),
                {"StringEquals": condition, "ArnEquals": {"aws:PrincipalArn": trusted}},
            ),
        )
        let_stop(role, settings)
        return role
