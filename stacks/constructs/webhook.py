"""An HTTPS endpoint for issues: EventBridge calls it, with the value of a secret in one header."""

from __future__ import annotations

from aws_cdk import Duration, SecretValue
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.allow import allow


class Webhook(Construct):
    """A webhook that calls `url` for events of `pattern` on `bus`, at most `calls_per_second` times a second.

    A call that it refuses for a day lies in `dead_letters` for 14 days.

    The header is the value of the Secrets Manager secret of that name: neither the template nor any variable holds it;
    CloudFormation looks it up, and EventBridge keeps it in a secret of its own.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bus: events.IEventBus,
        pattern: events.EventPattern,
        url: str,
        header: str,
        secret_name: str,
        body: events.RuleTargetInput,
        calls_per_second: int,
        description: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        why = "This is where others' dead letters go."
        acknowledge(self.dead_letters, {"Serverless-SQSRedrivePolicy": why, "AwsSolutions-SQS3": why})
        connection = events.Connection(
            self,
            "Connection",
            authorization=events.Authorization.api_key(header, SecretValue.secrets_manager(secret_name)),
            description=description,
        )
        destination = events.ApiDestination(
            self,
            "Destination",
            connection=connection,
            endpoint=url,
            http_method=events.HttpMethod.POST,
            rate_limit_per_second=calls_per_second,
            description=description,
        )
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("events.amazonaws.com"))
        arn = destination.api_destination_arn
        allow(role, "CallTheEndpoint", ["events:InvokeApiDestination"], [arn], why="Its purpose: this one, no other.")
        self.rule = events.Rule(
            self,
            "Told",
            description=description,
            event_bus=bus,
            event_pattern=pattern,
            targets=[
                targets.ApiDestination(
                    destination,
                    event=body,
                    event_role=role.without_policy_updates(),  # else CDK writes the statement again, without the reason
                    dead_letter_queue=self.dead_letters,
                    retry_attempts=185,
                    max_event_age=Duration.hours(24),
                )
            ],
        )
