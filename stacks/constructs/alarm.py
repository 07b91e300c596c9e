"""An alarm with a description of its meaning and the cure, and its receivers."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct


class TopicAlarm(cloudwatch.Alarm):
    """An alarm on a metric at `threshold` or above (`below`: below it) in `periods` of its periods in a row.

    `silence_is_alarm`: missing data count as data that breach; else they do not.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topic: sns.ITopic,
        metric: cloudwatch.IMetric,
        threshold: float,
        description: str,
        below: bool = False,
        periods: int = 1,
        silence_is_alarm: bool = False,
    ) -> None:
        compare, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        super().__init__(
            scope,
            construct_id,
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=compare.LESS_THAN_THRESHOLD if below else compare.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=missing.BREACHING if silence_is_alarm else missing.NOT_BREACHING,
        )
        self.add_alarm_action(actions.SnsAction(topic))
