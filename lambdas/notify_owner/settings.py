"""Settings of notify_owner."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings
from trackside.contracts.action import DEFAULT_ACTIONS, Action


@dataclass(frozen=True)
class NotifyOwnerSettings(EnvironmentSettings):
    """`topic_arn` is where owners subscribe. Messages also go onto the bus `event_bus`, from where webhooks take them
    ("": there are none). A rule that was told of is quiet for `quiet_minutes` (0: never); what it finds meanwhile waits
    in the queue, and is told as one. `default_actions` hold for events that name none."""

    topic_arn: str
    idempotency_table: str
    queue_url: str = ""
    event_bus: str = ""
    quiet_minutes: int = 0
    default_actions: tuple[Action, ...] = DEFAULT_ACTIONS
