"""Evaluates CloudWatch's metric alarms on a short tick, and carries out their SNS actions.

The queues' own metrics (AWS/SQS) are published here too, whenever they change and once a minute.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends
from moto.utilities.arns import parse_arn

from trackside_localaccount.alarm_state import ALARM, INSUFFICIENT_DATA, OK, AlarmQuestion, evaluate
from trackside_localaccount.journal import Journal
from trackside_localaccount.queue_lock import QUEUE_LOCK
from trackside_localaccount.rights.accesses import Access
from trackside_localaccount.rights.rights import Rights

_logger = logging.getLogger(__name__)
_REPUBLISH_SECONDS = 60.0


class Alarms:
    """One thread that looks every `tick_seconds`."""

    def __init__(
        self, *, journal: Journal, rights: Rights, tick_seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._journal = journal
        self._rights = rights
        self._tick_seconds = tick_seconds
        self._clock = clock
        self._states: dict[str, str] = {}
        self._published: dict[tuple[str, str], tuple[float, float]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="alarms", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._thread.join()

    def _tick(self) -> None:
        while not self._closing.wait(self._tick_seconds):
            try:
                self.look()
            except Exception:
                _logger.exception("The alarms could not be evaluated")

    def look(self) -> None:
        """Publish the queues' metrics, then evaluate every alarm."""
        self._publish_queues()
        for account, regions in list(cloudwatch_backends.items()):
            for region, backend in list(regions.items()):
                for alarm in list(backend.alarms.values()):
                    self._look_at(alarm, backend, account=account, region=region)

    def _look_at(self, alarm: Any, backend: Any, *, account: str, region: str) -> None:
        before = self._states.setdefault(alarm.alarm_arn, INSUFFICIENT_DATA)
        if alarm.state_value == before and _is_simple(alarm):  # otherwise somebody called SetAlarmState
            now = self._clock()
            answer = evaluate(_question(alarm), _samples(alarm, backend), now=now, state=before)
            if answer.state != before:
                alarm.update_state(answer.reason, "{}", answer.state)
        if alarm.state_value == before:
            return
        self._states[alarm.alarm_arn] = alarm.state_value
        self._journal.write("alarm", alarm=alarm.name, before=before, state=alarm.state_value)
        if alarm.actions_enabled:
            for action in _actions(alarm):
                self._act(action, alarm, before=before, account=account, region=region)

    def _act(self, action: str, alarm: Any, *, before: str, account: str, region: str) -> None:
        arn = parse_arn(action)
        if arn.service != "sns":
            self._journal.write("alarm-action-skipped", alarm=alarm.name, action=action)
            return
        access = Access("sns:Publish", action)
        if self._rights.service_refusal("cloudwatch", access, source_arn=alarm.alarm_arn):
            self._journal.write("alarm-action-failed", alarm=alarm.name, action=action)
            return
        message = json.dumps(_message(alarm, before=before, account=account, region=region))
        subject = f'{alarm.state_value}: "{alarm.name}" in {region}'[:100]
        sns_backends[arn.account][arn.region].publish(message, arn=action, subject=subject)

    def _publish_queues(self) -> None:
        for account, regions in list(sqs_backends.items()):
            for region, backend in list(regions.items()):
                for queue in list(backend.queues.values()):
                    self._publish(queue, cloudwatch_backends[account][region])

    def _publish(self, queue: Any, cloudwatch: Any) -> None:
        now = self._clock()
        with QUEUE_LOCK:
            sent = [message.sent_timestamp / 1000 for message in queue._messages]
            metrics = {
                "ApproximateNumberOfMessagesVisible": queue.approximate_number_of_messages,
                "ApproximateNumberOfMessagesNotVisible": queue.approximate_number_of_messages_not_visible,
                "ApproximateNumberOfMessagesDelayed": queue.approximate_number_of_messages_delayed,
                "ApproximateAgeOfOldestMessage": int(now - min(sent, default=now)),
            }
        dimensions = [{"Name": "QueueName", "Value": queue.name}]
        for name, value in metrics.items():
            published_at, published = self._published.get((queue.queue_arn, name), (0.0, -1.0))
            if value != published or now - published_at >= _REPUBLISH_SECONDS:
                self._published[queue.queue_arn, name] = (now, value)
                moment = datetime.fromtimestamp(now, tz=timezone.utc).replace(tzinfo=None)  # as moto keeps them
                datum = {"MetricName": name, "Value": value, "Dimensions": dimensions, "Timestamp": moment}
                cloudwatch.put_metric_data("AWS/SQS", [datum])


def _is_simple(alarm: Any) -> bool:
    """One metric; neither metric math nor an alarm over alarms."""
    return not alarm.rule and not alarm.metric_data_queries and bool(alarm.metric_name)


def _question(alarm: Any) -> AlarmQuestion:
    periods = int(alarm.evaluation_periods)
    return AlarmQuestion(
        statistic=alarm.extended_statistic or alarm.statistic,
        period_seconds=int(alarm.period),
        evaluation_periods=periods,
        datapoints_to_alarm=int(alarm.datapoints_to_alarm or periods),
        comparison=alarm.comparison_operator,
        threshold=float(alarm.threshold),
        treat_missing_data=alarm.treat_missing_data or "missing",
    )


def _samples(alarm: Any, backend: Any) -> list[tuple[float, float]]:
    wanted = {(dimension.name, dimension.value) for dimension in alarm.dimensions}
    return [
        (_seconds(datum.timestamp), float(datum.value))
        for datum in list(backend.metric_data)
        if datum.name == alarm.metric_name
        and datum.namespace == alarm.namespace
        and {(dimension.name, dimension.value) for dimension in datum.dimensions} == wanted
        and hasattr(datum, "value")
    ]


def _seconds(moment: Any) -> float:
    if isinstance(moment, (int, float)):
        return float(moment)
    at = datetime.fromisoformat(moment.replace("Z", "+00:00")) if isinstance(moment, str) else moment
    return float((at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp())


def _actions(alarm: Any) -> list[str]:
    actions = {OK: alarm.ok_actions, ALARM: alarm.alarm_actions, INSUFFICIENT_DATA: alarm.insufficient_data_actions}
    return list(actions.get(alarm.state_value) or ())


def _message(alarm: Any, *, before: str, account: str, region: str) -> Mapping[str, Any]:
    """Return the message that CloudWatch sends to SNS."""
    return {
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.description or None,
        "AWSAccountId": account,
        "NewStateValue": alarm.state_value,
        "NewStateReason": alarm.state_reason,
        "StateChangeTime": alarm.state_updated_timestamp.strftime("%Y-%m-%dT%H:%M:%S.000+0000"),
        "Region": region,
        "AlarmArn": alarm.alarm_arn,
        "OldStateValue": before,
        "Trigger": {
            "MetricName": alarm.metric_name,
            "Namespace": alarm.namespace,
            "Statistic": alarm.extended_statistic or alarm.statistic,
            "Dimensions": [{"name": each.name, "value": each.value} for each in alarm.dimensions],
            "Period": alarm.period,
            "EvaluationPeriods": alarm.evaluation_periods,
            "ComparisonOperator": alarm.comparison_operator,
            "Threshold": alarm.threshold,
            "TreatMissingData": alarm.treat_missing_data or "missing",
        },
    }
