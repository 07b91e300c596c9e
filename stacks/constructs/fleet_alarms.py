"""Alarms on the fleet: no worker, a run that waits too long, an announcement that cannot be read."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.constructs.alarm import TopicAlarm
from stacks.constructs.evaluator_fleet import EvaluatorFleet
from stacks.deployment_settings import DeploymentSettings
from stacks.measures import oldest, waiting
from trackside.contracts.deployment.metrics import LOAD, LONGEST_WAIT

SILENT_MINUTES = 10
LONGEST_WAIT_SECONDS = 600


def watch_fleet(
    scope: Construct, fleet: EvaluatorFleet, *, topic: sns.ITopic, settings: DeploymentSettings
) -> list[TopicAlarm]:
    """Return the alarms, made in `scope`."""
    alarms = [
        TopicAlarm(
            scope,
            "FleetRunsWaiting",
            topic=topic,
            metric=fleet.fleet_metric(LONGEST_WAIT, cloudwatch.Stats.MAXIMUM, minutes=5),
            threshold=LONGEST_WAIT_SECONDS,
            description="A run has waited ten minutes for a worker of the fleet: all are full, and there are as many "
            "as there may be (fleet_most_workers), or new ones do not start. Look at the events of the ECS service.",
        ),
        TopicAlarm(
            scope,
            "FleetUnreadAnnouncements",
            topic=topic,
            metric=waiting(fleet.dead_letters),
            threshold=1,
            description="Workers of the fleet could not follow an announcement. The run is found in the table all the "
            f"same; why it failed stands in the workers' log, and the message in {fleet.dead_letters.queue_name}.",
        ),
        TopicAlarm(
            scope,
            "FleetAnnouncementsLate",
            topic=topic,
            metric=oldest(fleet.queue),
            threshold=settings.monitoring.oldest_message_minutes * 60,
            description=f"A run was announced to the fleet {settings.monitoring.oldest_message_minutes} minutes ago, "
            "and no worker has room for it, or none runs. Look at the events of the ECS service.",
        ),
    ]
    if settings.fleet.least_workers:
        alarms.append(
            TopicAlarm(
                scope,
                "FleetSilent",
                topic=topic,
                metric=fleet.fleet_metric(LOAD, cloudwatch.Stats.SAMPLE_COUNT, minutes=1),
                threshold=1,
                below=True,
                periods=SILENT_MINUTES,
                silence_is_alarm=True,
                description=f"No worker of the fleet has reported its load for {SILENT_MINUTES} minutes: no run is "
                "judged. Look at the events of the ECS service: no image, no capacity, no way to AWS's endpoints? "
                "(After the first deployment it is in alarm until the first worker runs.)",
            )
        )
    return alarms
