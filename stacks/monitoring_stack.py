"""Monitoring of Trackside itself: alarms on every part that may fail or fall silent, and, if asked for, a dashboard."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.constructs.alarm import TopicAlarm
from stacks.constructs.alarm_topic import AlarmTopic
from stacks.constructs.evaluator_fleet import EvaluatorFleet
from stacks.constructs.fleet_alarms import watch_fleet
from stacks.constructs.overview import Overview
from stacks.constructs.queue_backed_function import QueueBackedFunction
from stacks.constructs.webhook import Webhook
from stacks.deployment_settings import DeploymentSettings
from stacks.measures import issues, oldest, own, waiting
from stacks.outputs import output
from trackside.contracts.deployment.reaction_metrics import DETECTION_LATENCY, SILENT_EVALUATORS, SWEEPS

MISSED_SWEEPS = 3  # so many in a row: one may fail, and is tried again


class Monitoring:
    """The alarms.

    - `topic`: topic of the alarms about Trackside itself
    - `issue_topic`: topic of the alarm about training jobs, for incident workflows
    - `reactions`: by name, as in lambdas/
    """

    def __init__(
        self,
        scope: Construct,
        *,
        settings: DeploymentSettings,
        key: kms.IKey,
        reactions: Mapping[str, QueueBackedFunction],
        failed_evaluations: sqs.IQueue,
        webhooks: Mapping[str, Webhook],
        fleet: EvaluatorFleet | None = None,
        existing_topic: sns.ITopic | None = None,
    ) -> None:
        self._scope = scope
        self._settings = settings
        self.topic = existing_topic or self._create_topic(key)
        # No e-mail: owners get each issue by name, on the topic of issues.
        self.issue_topic = AlarmTopic(
            scope, "IssueAlarms", key=key, display_name="Trackside: issues in training", emails=()
        )
        training = self._watch_training()
        alarms = [training, self._watch_latency(), self._watch_evaluators(), self._watch_sweeps()]
        alarms.append(self._watch_failed_evaluations(failed_evaluations))
        alarms += [self._watch_webhook(name, webhook) for name, webhook in webhooks.items()]
        for name, reaction in reactions.items():
            alarms += self._watch_reaction(name, reaction)
        if fleet:
            alarms += watch_fleet(scope, fleet, topic=self.topic, settings=settings)
        if settings.monitoring.dashboard:
            name = re.sub(r"[^\w-]", "-", settings.event_bus_name)
            Overview(
                self._scope,
                "Overview",
                name=name,
                settings=settings,
                reactions=reactions,
                failed_evaluations=failed_evaluations,
                alarms=alarms,
            )
            output(self._scope, "DashboardName", value=name)
        about = "Subscribe to be notified when Trackside itself needs attention"
        output(self._scope, "AlarmTopicArn", value=self.topic.topic_arn, description=about)
        about = "Subscribe incident workflows: an alarm while rules find issues"
        output(self._scope, "IssueAlarmTopicArn", value=self.issue_topic.topic_arn, description=about)
        output(self._scope, "IssueAlarmName", value=training.alarm_name)

    def _create_topic(self, key: kms.IKey) -> sns.ITopic:
        if self._settings.place.alarm_topic_arn:
            return sns.Topic.from_topic_arn(self._scope, "Alarms", self._settings.place.alarm_topic_arn)
        emails = self._settings.notices.emails
        return AlarmTopic(self._scope, "Alarms", key=key, display_name="Trackside: alarms", emails=emails)

    def _watch_training(self) -> TopicAlarm:
        return TopicAlarm(
            self._scope,
            "IssuesFound",
            topic=self.issue_topic,
            metric=issues(self._settings),
            threshold=1,
            description="A rule that asks for PublishMetric found an issue in a training job. `trackside aws status` "
            "lists the jobs, `trackside aws verdicts JOB` says what was found.",
        )

    def _watch_latency(self) -> TopicAlarm:
        seconds = self._settings.monitoring.detection_latency_seconds
        return TopicAlarm(
            self._scope,
            "DetectionLatency",
            topic=self.topic,
            metric=own(
                DETECTION_LATENCY,
                reaction="record_verdict",
                settings=self._settings,
                statistic=cloudwatch.Stats.MAXIMUM,
                minutes=5,
            ),
            threshold=seconds,
            description=f"A verdict took {seconds} seconds or more to reach the table of runs, so what follows from it "
            "may be late, too. Look at the age of the queues, and for throttles of the functions.",
        )

    def _watch_evaluators(self) -> TopicAlarm:
        minutes = self._settings.monitoring.silence_minutes
        return TopicAlarm(
            self._scope,
            "EvaluatorsSilent",
            topic=self.topic,
            metric=own(
                SILENT_EVALUATORS,
                reaction="reconcile",
                settings=self._settings,
                statistic=cloudwatch.Stats.MAXIMUM,
                minutes=max(self._settings.monitoring.reconcile_minutes, 5),
            ),
            threshold=1,
            description=f"A training job runs whose evaluator has given no sign of life for {minutes} minutes, so it "
            "may not be watched. The log of reconcile names it ('may not be watched'); look at its processing job.",
        )

    def _watch_sweeps(self) -> TopicAlarm:
        minutes = self._settings.monitoring.reconcile_minutes
        return TopicAlarm(
            self._scope,
            "ReconcileSilent",
            topic=self.topic,
            metric=own(
                SWEEPS,
                reaction="reconcile",
                settings=self._settings,
                statistic=cloudwatch.Stats.SUM,
                minutes=minutes,
            ),
            threshold=1,
            below=True,
            periods=MISSED_SWEEPS,
            silence_is_alarm=True,
            description=f"No sweep came to its end for {MISSED_SWEEPS} times {minutes} minutes: a lost event "
            "is not found, and nobody looks whether evaluators live. The log of reconcile says why. (Right after the "
            "first deployment it is in alarm once, until the first sweep.)",
        )

    def _watch_failed_evaluations(self, queue: sqs.IQueue) -> TopicAlarm:
        return TopicAlarm(
            self._scope,
            "FailedEvaluations",
            topic=self.topic,
            metric=waiting(queue),
            threshold=1,
            description="What judges a training job failed for good, so that job is no longer watched, or not by the "
            "rule that the processing job was for. Its name and the reason stand in the event that lies in "
            f"{queue.queue_name}.",
        )

    def _watch_webhook(self, name: str, webhook: Webhook) -> TopicAlarm:
        return TopicAlarm(
            self._scope,
            f"{name.capitalize()}DeadLetters",
            topic=self.topic,
            metric=waiting(webhook.dead_letters),
            threshold=1,
            description=f"The webhook {name} could not be reached for a day: the messages it missed lie in "
            f"{webhook.dead_letters.queue_name}. Mails and the table do not depend on it.",
        )

    def _watch_reaction(self, name: str, reaction: QueueBackedFunction) -> list[TopicAlarm]:
        """Return two alarms: what a function gives up is a dead letter, and what holds it up makes its queue old.

        Errors and throttles of the function lead to one of both within minutes, and stand on the dashboard.
        """
        title = "".join(word.capitalize() for word in name.split("_"))
        minutes = self._settings.monitoring.oldest_message_minutes
        return [
            TopicAlarm(
                self._scope,
                f"{title}DeadLetters",
                topic=self.topic,
                metric=waiting(reaction.dead_letters),
                threshold=1,
                description=f"{name} gave up on an event, or EventBridge could not deliver one: it lies in "
                f"{reaction.dead_letters.queue_name}. Its log says why; redrive the queue once that is mended.",
            ),
            TopicAlarm(
                self._scope,
                f"{title}Late",
                topic=self.topic,
                metric=oldest(reaction.queue),
                threshold=minutes * 60,
                description=f"A message has waited {minutes} minutes for {name}: it does not keep up, is not started, "
                "or fails again and again. Nothing is lost so far; its log and its throttles say what holds it up.",
            ),
        ]
