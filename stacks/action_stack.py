"""The consequences of a verdict: the bus, the rules on it, and one reaction for each action."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.actions.stop_training import switch_name
from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.action_reaction import ActionParts, create_reaction_to
from stacks.constructs.encrypted_topic import EncryptedTopic
from stacks.constructs.run_table import RunTable
from stacks.deployment_settings import DeploymentSettings
from stacks.event_patterns import rule_status_changed
from stacks.existing_resources import NONE_EXISTS, ExistingResources
from stacks.outputs import output
from stacks.webhooks import create_webhooks
from trackside.contracts.action import Action

OWN_REACTION = tuple(action for action in Action if not action.unit.carried_out_by)
MOST_ARCHIVE_NAME_CHARACTERS = 48  # API_CreateArchive
SMS_HAS_NO_QUEUE = "An issue that no SMS could report stands in the e-mail, on the bus and in the table of runs."


class Actions:
    """The parts of actions.

    - `bus`: the bus of verdicts
    - `topic`: the topic of notices to owners
    - `reactions`: by name, as in lambdas/
    """

    def __init__(
        self,
        scope: Construct,
        *,
        settings: DeploymentSettings,
        key: kms.IKey,
        run_table: RunTable,
        runs: s3.IBucket,
        existing: ExistingResources = NONE_EXISTS,
    ) -> None:
        self._scope, self._existing = scope, existing
        self._settings = settings
        self.bus = self._create_bus()
        self.topic = self._create_topic(key)
        for phone in settings.notices.phones:
            subscription = self.topic.add_subscription(subscriptions.SmsSubscription(phone))
            acknowledge(subscription, {"Serverless-SNSRedrivePolicy": SMS_HAS_NO_QUEUE})
        self.webhooks = create_webhooks(scope, settings=settings, bus=self.bus)
        self.table = self._create_table()
        parts = ActionParts(
            scope,
            settings,
            key=key,
            run_table=run_table,
            runs=runs,
            bus=self.bus,
            topic=self.topic,
            table=self.table,
            has_webhooks=bool(self.webhooks),
        )
        self.reactions = {action.unit.name: create_reaction_to(action, parts) for action in OWN_REACTION}
        self._write_outputs()

    def _create_topic(self, key: kms.IKey) -> sns.ITopic:
        if self._existing.owner_topic:
            return self._existing.owner_topic
        if self._settings.place.notification_topic_arn:
            return sns.Topic.from_topic_arn(self._scope, "Issues", self._settings.place.notification_topic_arn)
        title = "Trackside: issues in training jobs"
        return EncryptedTopic(self._scope, "Issues", key=key, display_name=title, emails=self._settings.notices.emails)

    def _create_bus(self) -> events.IEventBus:
        settings = self._settings
        bus, place = self._existing.bus, self._scope
        has_other_name = bool(settings.environment) or not isinstance(self._scope, Stack)
        if bus is None:
            bus = place = events.EventBus(self._scope, "Bus", event_bus_name=settings.event_bus_name)
        events.Archive(
            place,
            "Archive",
            source_event_bus=bus,
            # One that CloudFormation makes of another stack's name might be longer than an archive's may be.
            archive_name=settings.event_bus_name[:MOST_ARCHIVE_NAME_CHARACTERS] if has_other_name else None,
            description="Every verdict, to be replayed after an outage",
            # Not the notices for webhooks: a replay would send them again.
            event_pattern=rule_status_changed(),
            retention=Duration.days(settings.retention.archive_days),
        )
        return bus

    def _create_table(self) -> dynamodb.Table:
        table = dynamodb.Table(
            self._scope,
            "Done",
            partition_key=dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expiration",
            removal_policy=RemovalPolicy.DESTROY,
        )
        acknowledge(
            table,
            {"AwsSolutions-DDB3": "It only remembers, for 14 days, which actions were carried out."},
        )
        return table

    def _write_outputs(self) -> None:
        output(self._scope, "EventBusName", value=self.bus.event_bus_name, description="Verdicts travel on it")
        output(
            self._scope, "IssueTopicArn", value=self.topic.topic_arn, description="Subscribe to be notified of issues"
        )
        switch = switch_name(self._settings)
        output(self._scope, "DryRunParameterName", value=switch, description="true: nothing is stopped")
        output(self._scope, "IdempotencyTableName", value=self.table.table_name)
        for action in OWN_REACTION:
            reaction = self.reactions[action.unit.name]
            output(self._scope, f"{action.value}QueueUrl", value=reaction.queue.queue_url)
            output(self._scope, f"{action.value}DeadLettersUrl", value=reaction.dead_letters.queue_url)
