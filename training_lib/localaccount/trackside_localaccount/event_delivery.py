"""EventBridge's delivery: from an event and a matching rule to its targets, with retries and dead-letter queues."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from moto.awslambda.exceptions import UnknownFunctionException
from moto.awslambda.models import lambda_backends
from moto.cloudwatch.models import cloudwatch_backends
from moto.core.exceptions import JsonRESTError, ServiceException
from moto.events.models import events_backends
from moto.logs.models import logs_backends
from moto.sns.models import sns_backends
from moto.sqs.exceptions import QueueDoesNotExist
from moto.sqs.models import sqs_backends
from moto.utilities.arns import parse_arn

from trackside_localaccount.api_destinations import ApiDestinations, CallError
from trackside_localaccount.background import Background
from trackside_localaccount.event_pattern import matches
from trackside_localaccount.faults import Faults, FaultSwitch
from trackside_localaccount.journal import Journal
from trackside_localaccount.rights.accesses import Access
from trackside_localaccount.rights.holdings import exists
from trackside_localaccount.rights.rights import Rights
from trackside_localaccount.target_input import render


@dataclass(frozen=True)
class Chaos:
    """EventBridge promises at least once and no order: this makes both happen. Equal seeds draw equal numbers.

    Each delivery is doubled with probability `duplicate` and waits up to `delay_seconds`, so that events overtake.
    """

    seed: int
    duplicate: float = 0.3
    delay_seconds: float = 0.3

    def faults(self) -> Faults:
        """Return the equal `Faults`."""
        return Faults(seed=self.seed, duplicate=self.duplicate, delay_seconds=self.delay_seconds)


@dataclass(frozen=True)
class RetryPolicy:
    """EventBridge tries 185 times in 24 hours; here a target's own MaximumRetryAttempts counts up to `most` only."""

    most: int = 2
    first_pause_seconds: float = 0.1


@dataclass(frozen=True)
class _Delivery:
    rule_name: str
    rule_arn: str
    account: str
    region: str
    target: Mapping[str, Any]
    event: Mapping[str, Any]
    attempt: int = 1

    @property
    def allowed_retries(self) -> int:
        return int(self.target.get("RetryPolicy", {}).get("MaximumRetryAttempts", 185))


class DeliveryError(Exception):
    """The target could not take the event. `code` is EventBridge's; `is_final`: no retry would help."""

    def __init__(self, code: str, message: str, *, is_final: bool) -> None:
        self.code, self.is_final = code, is_final
        super().__init__(message)


class EventDelivery:
    """`invoke(function, payload)` invokes a Lambda function asynchronously."""

    def __init__(
        self,
        *,
        background: Background,
        journal: Journal,
        invoke: Callable[[Any, bytes], None],
        retry: RetryPolicy,
        switch: FaultSwitch,
        destinations: ApiDestinations,
        rights: Rights,
    ) -> None:
        self._rights = rights
        self._background = background
        self._journal = journal
        self._invoke = invoke
        self._retry = retry
        self._switch = switch
        self._destinations = destinations

    def send(self, rule: Any, original: Mapping[str, Any]) -> None:
        """Send an event to the targets of moto's `Rule`, if the rule is enabled and its pattern matches."""
        event = envelope(original, account=rule.account_id, region=rule.region_name)
        pattern = rule.event_pattern.get_pattern()
        if rule.state == "DISABLED" or not pattern or not matches(pattern, event):
            return
        if self._switch.drops(event["source"], event["id"]):
            self._journal.write("event-dropped", rule=rule.name, detail_type=event["detail-type"], id=event["id"])
            return
        self._journal.write("event-matched", rule=rule.name, detail_type=event["detail-type"], id=event["id"])
        for target in list(rule.targets):
            self._schedule(_Delivery(rule.name, rule.arn, rule.account_id, rule.region_name, target, event))

    def _schedule(self, delivery: _Delivery) -> None:
        for pause in self._switch.delivery():
            self._background.run(lambda: self._try(delivery), after_seconds=pause)

    def _try(self, delivery: _Delivery) -> None:
        if ":api-destination/" in delivery.target["Arn"]:
            pause = self._destinations.turn(delivery.target["Arn"])
            self._background.run(lambda: self._try_now(delivery), after_seconds=pause)
        else:
            self._try_now(delivery)

    def _try_now(self, delivery: _Delivery) -> None:
        try:
            self._deliver(delivery)
        except DeliveryError as error:
            self._after_failure(delivery, error)
            return
        _count(delivery, "Invocations")
        self._journal.write("event-delivered", rule=delivery.rule_name, target=delivery.target["Arn"])

    def _after_failure(self, delivery: _Delivery, error: DeliveryError) -> None:
        retries_left = min(delivery.allowed_retries, self._retry.most) - (delivery.attempt - 1)
        if retries_left > 0 and not error.is_final:
            fields = {name: getattr(delivery, name) for name in ("rule_name", "rule_arn", "account", "region")}
            again = _Delivery(**fields, target=delivery.target, event=delivery.event, attempt=delivery.attempt + 1)
            pause = self._retry.first_pause_seconds * 2 ** (delivery.attempt - 1)
            self._background.run(lambda: self._try(again), after_seconds=pause)
            return
        _count(delivery, "FailedInvocations")
        queue = delivery.target.get("DeadLetterConfig", {}).get("Arn")
        self._journal.write(
            "event-failed", rule=delivery.rule_name, target=delivery.target["Arn"], code=error.code, dead_letters=queue
        )
        if queue and not self._refusal({"Arn": queue}, "sqs", delivery):
            attributes = {
                "RULE_ARN": delivery.rule_arn,
                "TARGET_ARN": delivery.target["Arn"],
                "ERROR_CODE": error.code,
                "ERROR_MESSAGE": str(error),
                "RETRY_ATTEMPTS": str(delivery.attempt - 1),
            }
            send_to_queue(queue, json.dumps(delivery.event), attributes=attributes)

    def _refusal(self, target: Mapping[str, Any], service: str, delivery: _Delivery) -> str:
        """IAM's refusal to EventBridge: by the role of the target, where it has one, else by the target's policy.

        https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-identity-based.html
        """
        action = _ACTIONS.get(service)
        if action is None:
            return ""  # a target that does not exist here
        if ":api-destination/" in target["Arn"]:
            action = "events:InvokeApiDestination"
        access = Access(action, _as_resource(target["Arn"], service), _keys_of(delivery.event))
        if role := target.get("RoleArn"):
            if not self._rights.can_assume(role, "events"):
                return f"EventBridge cannot assume the role {role}"
            return self._rights.role_refusal(role, "EventBridge", access)
        if action == "events:InvokeApiDestination":
            return "An API destination needs a role"
        if service == "events":
            return self._rights.account_refusal(delivery.rule_arn.split(":")[4], access)
        return self._rights.service_refusal("events", access, source_arn=delivery.rule_arn)

    def _deliver(self, delivery: _Delivery) -> None:
        arn = parse_arn(delivery.target["Arn"])
        text = render(delivery.target, delivery.event, rule_arn=delivery.rule_arn, rule_name=delivery.rule_name)
        refusal = self._refusal(delivery.target, arn.service, delivery)
        if refusal and exists(delivery.target["Arn"]):
            raise DeliveryError("NO_PERMISSIONS", refusal, is_final=True)
        try:
            if arn.service == "sqs":
                group = delivery.target.get("SqsParameters", {}).get("MessageGroupId")
                send_to_queue(delivery.target["Arn"], text, group=group)
            elif arn.service == "lambda":
                function = lambda_backends[arn.account][arn.region].get_function(delivery.target["Arn"], None)
                self._invoke(function, text.encode())
            elif arn.service == "sns":
                sns_backends[arn.account][arn.region].publish(text, arn=delivery.target["Arn"])
            elif arn.service == "logs":
                _send_to_logs(arn, text)
            elif arn.service == "events" and arn.resource_type == "event-bus":
                _send_to_bus(arn, delivery.event)
            elif arn.service == "events" and arn.resource_type == "api-destination":
                self._destinations.call(delivery.target["Arn"], text)
            else:
                raise DeliveryError("NO_RESOURCE", f"Targets of {arn.service} do not exist here.", is_final=True)
        except CallError as error:
            raise DeliveryError("SDK_CLIENT_ERROR", str(error), is_final=error.is_final) from error
        except (QueueDoesNotExist, UnknownFunctionException) as error:
            raise DeliveryError("NO_RESOURCE", str(error), is_final=True) from error
        except (JsonRESTError, ServiceException) as error:
            raise DeliveryError("SDK_CLIENT_ERROR", str(error), is_final=_is_missing_error(error)) from error


_ACTIONS = {
    "sqs": "sqs:SendMessage",
    "sns": "sns:Publish",
    "lambda": "lambda:InvokeFunction",
    "logs": "logs:PutLogEvents",
    "events": "events:PutEvents",
}


def _keys_of(event: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-conditions.html"""
    return {"events:source": (str(event["source"]),), "events:detail-type": (str(event["detail-type"]),)}


def _as_resource(arn: str, service: str) -> str:
    """The resource of a policy: of a log group, any of its streams."""
    return f"{arn.removesuffix(':*')}:log-stream:stream" if service == "logs" else arn


def envelope(original: Mapping[str, Any], *, account: str, region: str) -> dict[str, Any]:
    """Return the event as EventBridge sends it. In moto's, the time is a number, and the account may be missing."""
    event = {
        "version": "0",
        "id": original.get("id") or str(uuid.uuid4()),
        "detail-type": original["detail-type"],
        "source": original["source"],
        "account": original.get("account") or account,
        "time": _as_text(original.get("time")),
        "region": original.get("region") or region,
        "resources": original.get("resources", []),
        "detail": original["detail"],
    }
    return event | ({"replay-name": original["replay-name"]} if "replay-name" in original else {})


def send_to_queue(
    queue_arn: str, text: str, *, group: str | None = None, attributes: Mapping[str, str] | None = None
) -> None:
    """Send a message to a queue. Errors: moto's `QueueDoesNotExist`."""
    arn = parse_arn(queue_arn)
    message_attributes = {
        name: {"DataType": "String", "StringValue": value or "-"} for name, value in (attributes or {}).items()
    }
    sqs_backends[arn.account][arn.region].send_message(
        arn.resource_id, text, message_attributes=message_attributes, group_id=group
    )


def _as_text(moment: Any) -> str:
    if isinstance(moment, str) and not moment.replace(".", "", 1).isdigit():
        return moment
    at = moment if isinstance(moment, datetime) else datetime.fromtimestamp(float(moment or 0), tz=timezone.utc)
    return at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _send_to_logs(arn: Any, text: str) -> None:
    backend = logs_backends[arn.account][arn.region]
    group, stream = arn.resource_id.removesuffix(":*"), str(uuid.uuid4())
    backend.create_log_stream(group, stream)
    now = datetime.now(timezone.utc)  # noqa: TID251 - CloudWatch Logs refuses what is not about now
    backend.put_log_events(group, stream, [{"timestamp": int(1000 * now.timestamp()), "message": text}])


def _send_to_bus(arn: Any, event: Mapping[str, Any]) -> None:
    entry = {
        "Source": event["source"],
        "DetailType": event["detail-type"],
        "Detail": json.dumps(event["detail"]),
        "Resources": event["resources"],
        "EventBusName": arn.resource_id,
    }
    events_backends[arn.account][arn.region].put_events([entry])


def _count(delivery: _Delivery, metric: str) -> None:
    """AWS/Events, as https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-monitoring.html."""
    datum = {"MetricName": metric, "Value": 1, "Dimensions": [{"Name": "RuleName", "Value": delivery.rule_name}]}
    cloudwatch_backends[delivery.account][delivery.region].put_metric_data("AWS/Events", [datum])


def _is_missing_error(error: Exception) -> bool:
    return any(word in f"{type(error).__name__} {error}" for word in ("NotFound", "does not exist", "NonExistent"))
