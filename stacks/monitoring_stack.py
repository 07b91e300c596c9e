"""Who watches the watchers: an alarm for each dead-letter queue, and one for evaluations that failed."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.constructs.encrypted_topic import EncryptedTopic
from stacks.deployment_settings import DeploymentSettings


class MonitoringStack(Stack):
    """`topic`: where alarms go."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: DeploymentSettings,
        key: kms.IKey,
        dead_letter_queues: Mapping[str, sqs.IQueue],
        failed_evaluations: sqs.IQueue,
    ) -> None:
        super().__init__(scope, construct_id, description="Trackside: alarms")
        self.topic = EncryptedTopic(
            self, "Alarms", key=key, display_name="Trackside: alarms", emails=settings.owner_emails
        )
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsPublish",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )
        for reaction, queue in dead_letter_queues.items():
            self._watch(
                "".join(word.capitalize() for word in reaction.split("_")) + "DeadLetters",
                queue,
                description=f"{reaction} gave up on an event: it lies in {queue.queue_name}. Its log says why; "
                "redrive the queue once that is mended.",
            )
        self._watch(
            "FailedEvaluations",
            failed_evaluations,
            description="A processing job that judges a training job failed, so that job is no longer watched, or not "
            "by the rule that the processing job was for. Its name and the reason stand in the event that lies in "
            f"{failed_evaluations.queue_name}.",
        )
        about = "Subscribe to be told of dead letters and of evaluations that failed"
        CfnOutput(self, "AlarmTopicArn", value=self.topic.topic_arn, description=about)

    def _watch(self, construct_id: str, queue: sqs.IQueue, *, description: str) -> None:
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            alarm_description=description,
            metric=queue.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(1), statistic=cloudwatch.Stats.MAXIMUM
            ),
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
