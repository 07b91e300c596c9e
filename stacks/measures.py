"""The metrics of alarms and dashboard, each spelled once.

Those of alarms have no label: with one, CDK writes an alarm on metric math.
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs

from stacks.deployment_settings import DeploymentSettings
from trackside.contracts.deployment.metrics import ISSUE_METRIC, issue_namespace
from trackside.contracts.deployment.reaction_metrics import NAMESPACE
from trackside.contracts.event import RuleEvaluationStatus

ISSUES_FOUND = {"Status": RuleEvaluationStatus.ISSUES_FOUND.value}


def issues(settings: DeploymentSettings, *, minutes: int = 1) -> cloudwatch.Metric:
    """Return the issues of all rules in all training jobs."""
    return cloudwatch.Metric(
        namespace=issue_namespace(settings.environment),
        metric_name=ISSUE_METRIC,
        dimensions_map=ISSUES_FOUND,
        statistic=cloudwatch.Stats.SUM,
        period=Duration.minutes(minutes),
    )


def own(name: str, *, reaction: str, settings: DeploymentSettings, statistic: str, minutes: int) -> cloudwatch.Metric:
    """Return a metric that a reaction counts about itself (`trackside.contracts.deployment.reaction_metrics`)."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"service": settings.service_name(reaction)},
        statistic=statistic,
        period=Duration.minutes(minutes),
    )


def waiting(queue: sqs.IQueue, *, label: str | None = None) -> cloudwatch.Metric:
    """Return the number of messages in a queue."""
    return queue.metric_approximate_number_of_messages_visible(
        period=Duration.minutes(1), statistic=cloudwatch.Stats.MAXIMUM, label=label
    )


def oldest(queue: sqs.IQueue, *, label: str | None = None) -> cloudwatch.Metric:
    """Return the age of the oldest message in a queue, in seconds."""
    return queue.metric_approximate_age_of_oldest_message(
        period=Duration.minutes(5), statistic=cloudwatch.Stats.MAXIMUM, label=label
    )
