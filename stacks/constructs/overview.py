"""The dashboard: the state of training, the pace of the chain, and messages that wait for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.constructs.queue_backed_function import QueueBackedFunction
from stacks.deployment_settings import DeploymentSettings
from stacks.measures import issues, oldest, own, waiting
from trackside.contracts.deployment.reaction_metrics import DETECTION_LATENCY, SILENT_EVALUATORS, SWEEPS, WATCHED_JOBS

WIDTH, HALF, THIRD = 24, 12, 8
FIVE_MINUTES = Duration.minutes(5)


class Overview(cloudwatch.Dashboard):
    """One row of training, one of the chain, one of its functions; above all the alarms."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        settings: DeploymentSettings,
        reactions: Mapping[str, QueueBackedFunction],
        failed_evaluations: sqs.IQueue,
        alarms: Sequence[cloudwatch.IAlarm],
    ) -> None:
        stats = cloudwatch.Stats
        functions = {title: each.function for title, each in reactions.items()}
        watched = [
            own(each, reaction="reconcile", settings=settings, statistic=stats.MAXIMUM, minutes=5).with_(label=each)
            for each in (WATCHED_JOBS, SILENT_EVALUATORS, SWEEPS)
        ]
        latency = [
            own(DETECTION_LATENCY, reaction="record_verdict", settings=settings, statistic=each, minutes=5).with_(
                label=each
            )
            for each in ("p50", "p90", stats.MAXIMUM)
        ]
        super().__init__(
            scope,
            construct_id,
            dashboard_name=name,
            default_interval=Duration.days(1),
            widgets=[
                [cloudwatch.AlarmStatusWidget(title="Alarms", alarms=alarms, width=WIDTH, height=4)],
                [
                    _graph("Issues in training jobs", [issues(settings, minutes=5).with_(label="issues")]),
                    _graph("Training jobs that are watched, evaluators that are silent", watched),
                    _graph("From a verdict to its record (seconds)", latency),
                ],
                [
                    _graph("Oldest message (seconds)", [oldest(r.queue, label=n) for n, r in reactions.items()], HALF),
                    _graph(
                        "Where only people look: dead letters, evaluations that failed",
                        [
                            *(waiting(each.dead_letters, label=title) for title, each in reactions.items()),
                            waiting(failed_evaluations, label="evaluations that failed"),
                        ],
                        HALF,
                    ),
                ],
                [
                    _graph("Calls", [f.metric_invocations(period=FIVE_MINUTES, label=n) for n, f in functions.items()]),
                    _graph("Errors", [f.metric_errors(period=FIVE_MINUTES, label=n) for n, f in functions.items()]),
                    _graph(
                        "Throttles", [f.metric_throttles(period=FIVE_MINUTES, label=n) for n, f in functions.items()]
                    ),
                ],
            ],
        )


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric], width: int = THIRD) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title, left=metrics, width=width, height=6, left_y_axis=cloudwatch.YAxisProps(min=0, show_units=False)
    )
