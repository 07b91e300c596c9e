"""The consequences of a verdict: the bus, the rules on it, and one reaction for each action."""

from __future__ import annotations

from collections.abc import Callable

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.publish_metric.settings import PublishMetricSettings
from lambdas.shared.settings import EnvironmentSettings
from lambdas.stop_training.settings import StopTrainingSettings
from stacks.constructs.acknowledge import acknowledge
from stacks.constructs.allow import allow
from stacks.constructs.encrypted_topic import EncryptedTopic
from stacks.constructs.python_lambda import PowertoolsLayer
from stacks.constructs.queue_backed_function import MOST_BATCH_SIZE, QueueBackedFunction, pause_milliseconds
from stacks.constructs.run_table import RunTable
from stacks.constructs.stop_permission import let_stop
from stacks.deployment_settings import DeploymentSettings
from stacks.event_patterns import (
    custom_rule_failed,
    issue_found,
    nothing_judged,
    official_issue_found,
    official_issue_found_with_action,
    rule_status_changed,
    wrong_choice,
)
from stacks.spokes import spoke_role_name
from stacks.webhooks import create_webhooks, let_publish_to_webhooks
from trackside.contracts.action import Action
from trackside.contracts.deployment.metrics import issue_namespace

MOST_ARCHIVE_NAME_CHARACTERS = 48  # API_CreateArchive
SMS_HAS_NO_QUEUE = "What a phone could not be told stands in the e-mail, on the bus and in the table of runs."


class ActionStack(Stack):
    """The stack of actions.

    - `bus`: the bus of verdicts
    - `topic`: the topic of notices to owners
    - `reactions`: by name, as in lambdas/
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: DeploymentSettings,
        key: kms.IKey,
        run_table: RunTable,
        runs: s3.IBucket,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=settings.stack_name(construct_id),
            description="Trackside: what follows from a verdict",
        )
        self._settings = settings
        self.bus = self._create_bus()
        self.topic = self._create_topic(key)
        for phone in settings.notices.phones:
            subscription = self.topic.add_subscription(subscriptions.SmsSubscription(phone))
            acknowledge(subscription, {"Serverless-SNSRedrivePolicy": SMS_HAS_NO_QUEUE})
        self.webhooks = create_webhooks(self, settings=settings, bus=self.bus)
        self.table = self._create_table()
        layer = PowertoolsLayer(self, "Layer")
        self.reactions = {
            Action.STOP_TRAINING.unit.name: self._create_stop_training(layer, key, run_table),
            Action.NOTIFY.unit.name: self._create_notify_owner(layer, key, runs),
            Action.PUBLISH_METRIC.unit.name: self._create_publish_metric(layer),
        }
        self._write_outputs()

    def _create_topic(self, key: kms.IKey) -> sns.ITopic:
        if self._settings.place.notification_topic_arn:
            return sns.Topic.from_topic_arn(self, "Issues", self._settings.place.notification_topic_arn)
        title = "Trackside: issues in training jobs"
        return EncryptedTopic(self, "Issues", key=key, display_name=title, emails=self._settings.notices.emails)

    def _create_bus(self) -> events.EventBus:
        settings = self._settings
        bus = events.EventBus(self, "Bus", event_bus_name=settings.event_bus_name)
        bus.archive(
            "Archive",
            # One that CloudFormation makes of an environment's stack name might be longer than an archive's may be.
            archive_name=settings.event_bus_name[:MOST_ARCHIVE_NAME_CHARACTERS] if settings.environment else None,
            description="Every verdict, to be replayed after an outage",
            # Not the notices for webhooks: a replay would send them again.
            event_pattern=rule_status_changed(),
            retention=Duration.days(settings.retention.archive_days),
        )
        return bus

    def _create_table(self) -> dynamodb.Table:
        table = dynamodb.Table(
            self,
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

    def _create_dry_run_switch(self) -> ssm.StringParameter:
        """Return the switch.

        A person may change it at any time; a deployment sets it only after the setting has changed.
        """
        return ssm.StringParameter(
            self,
            "DryRun",
            parameter_name=f"/trackside/{self._settings.event_bus_name}/dry-run",
            string_value="true" if self._settings.stops.dry_run else "false",
            allowed_pattern="^(true|false)$",
            description="Trackside: true while no training job may be stopped",
        )

    def _create_stop_training(
        self, layer: lambda_.ILayerVersion, key: kms.IKey, run_table: RunTable
    ) -> QueueBackedFunction:
        settings, dry_run = self._settings, self._create_dry_run_switch()
        reaction = self._create_reaction(
            Action.STOP_TRAINING,
            layer,
            # SageMaker takes one or two stops a second. Of a thousand at once, made by as many functions as Lambda
            # allows, eight in ten ended as dead letters (docs/scale.md).
            most_at_once=settings.stops.made_at_once,
            batch_size=1,
            settings=lambda queue: StopTrainingSettings.of(
                settings.stops,
                settings.accounts,
                idempotency_table=self.table.table_name,
                run_table=run_table.table_name,
                queue_url=queue.queue_url,
                topic_arn=self.topic.topic_arn,
                dry_run_parameter=dry_run.parameter_name,
                retention_days=settings.retention.record_days,
                pause_milliseconds=pause_milliseconds(
                    settings.control_calls_per_second, at_once=settings.stops.made_at_once
                ),
                default_actions=settings.default_actions,
                **self._role_in_spokes(),
            ),
        )
        function = reaction.function
        why = "Reads what rules said before, and records each decision about a stop."
        run_table.let(function, "PutItem", "Query", "UpdateItem", why=why)
        switch, queue = dry_run.parameter_arn, reaction.queue.queue_arn
        allow(function, "ReadTheSwitch", ["ssm:GetParameter"], [switch], why="A person may forbid all stops.")
        allow(function, "LookAgainLater", ["sqs:SendMessage"], [queue], why="A stop waits for its veto in the queue.")
        self._let_publish(function, key, why="Announces a stop that may be vetoed.")
        let_stop(function, settings)
        return reaction

    def _role_in_spokes(self) -> dict[str, str]:
        settings = self._settings
        if not settings.accounts.spoke_accounts:
            return {}
        return {
            "spoke_role": spoke_role_name(settings, self.region),
            "external_id": settings.event_bus_name,
        }

    def _create_notify_owner(
        self, layer: lambda_.ILayerVersion, key: kms.IKey, runs: s3.IBucket
    ) -> QueueBackedFunction:
        reaction = self._create_reaction(
            Action.NOTIFY,
            layer,
            settings=lambda queue: NotifyOwnerSettings.of(
                self._settings.notices,
                topic_arn=self.topic.topic_arn,
                idempotency_table=self.table.table_name,
                queue_url=queue.queue_url,
                event_bus=self.bus.event_bus_name if self.webhooks else "",
                default_actions=self._settings.default_actions,
            ),
        )
        reaction.react_to(
            "WrongChoice", wrong_choice(), event_bus=self.bus, description="What a job says of its rules cannot be done"
        )
        function, queue = reaction.function, reaction.queue.queue_arn
        self._let_publish(function, key, why="Its purpose: tells who subscribed of an issue.")
        why = "What a rule finds while it is quiet waits in the queue."
        allow(function, "TellLater", ["sqs:SendMessage"], [queue], why=why)
        if self.webhooks:
            let_publish_to_webhooks(function, self.bus)
        about = "A processing job that judges by a rule from a file failed: its owner must know"
        reaction.react_to("CustomRuleFailed", custom_rule_failed(runs.bucket_name), description=about)
        reaction.react_to(
            "NothingJudged",
            nothing_judged(runs.bucket_name),
            description="No rule could judge a run: its owner must know",
        )
        return reaction

    def _let_publish(self, function: lambda_.Function, key: kms.IKey, *, why: str) -> None:
        allow(function, "TellOwners", ["sns:Publish"], [self.topic.topic_arn], why=why)
        actions, why = ["kms:Decrypt", "kms:GenerateDataKey"], "The topic is encrypted with this key."
        allow(function, "EncryptForTheTopic", actions, [key.key_arn], why=why)

    def _create_publish_metric(self, layer: lambda_.ILayerVersion) -> QueueBackedFunction:
        reaction = self._create_reaction(
            Action.PUBLISH_METRIC,
            layer,
            settings=PublishMetricSettings(
                idempotency_table=self.table.table_name,
                namespace=(namespace := issue_namespace(self._settings.environment)),
                default_actions=self._settings.default_actions,
            ),
        )
        allow(
            reaction.function,
            "CountIssues",
            ["cloudwatch:PutMetricData"],
            ["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": namespace}},
            why="Its purpose. Metrics have no ARNs: the namespace is the fence.",
        )
        return reaction

    def _create_reaction(
        self,
        action: Action,
        layer: lambda_.ILayerVersion,
        *,
        settings: EnvironmentSettings | Callable[[sqs.IQueue], EnvironmentSettings],
        most_at_once: int | None = None,
        batch_size: int = MOST_BATCH_SIZE,
    ) -> QueueBackedFunction:
        reaction = QueueBackedFunction(
            self,
            action.value,
            name=action.unit.name,
            description=f"Trackside: {action.description}",
            settings=settings,
            layer=layer,
            log_retention_days=self._settings.retention.log_days,
            most_at_once=most_at_once,
            batch_size=batch_size,
        )
        allow(
            reaction.function,
            "RememberWhatIsDone",
            ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"],
            [self.table.table_arn],
            why="A message that comes twice acts once.",
        )
        reaction.react_to(
            "IssueFound",
            issue_found(action),
            event_bus=self.bus,
            description=f"A rule that asks for {action.value} found an issue",
        )
        if action in self._settings.default_actions:
            reaction.react_to(
                "OfficialIssueFound",
                official_issue_found(),
                description="A rule of SageMaker Debugger itself found an issue",
            )
        else:
            reaction.react_to(
                "OfficialIssueFoundAndAsked",
                official_issue_found_with_action(action),
                description="A rule of SageMaker Debugger itself found an issue in a job whose tag asks for this",
            )
        return reaction

    def _write_outputs(self) -> None:
        CfnOutput(self, "EventBusName", value=self.bus.event_bus_name, description="Verdicts travel on it")
        CfnOutput(self, "IssueTopicArn", value=self.topic.topic_arn, description="Subscribe to be told of issues")
        switch = f"/trackside/{self._settings.event_bus_name}/dry-run"
        CfnOutput(self, "DryRunParameterName", value=switch, description="true: nothing is stopped")
        CfnOutput(self, "IdempotencyTableName", value=self.table.table_name)
        for action in Action:
            reaction = self.reactions[action.unit.name]
            CfnOutput(self, f"{action.value}QueueUrl", value=reaction.queue.queue_url)
            CfnOutput(self, f"{action.value}DeadLettersUrl", value=reaction.dead_letters.queue_url)
