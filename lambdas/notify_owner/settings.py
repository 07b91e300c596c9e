"""Settings of notify_owner."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings
from trackside.contracts.action import DEFAULT_ACTIONS, Action


@dataclass(frozen=True)
class NotifyOwnerSettings(EnvironmentSettings):
    """Settings of messages to owners.

    topic_arn          topic to which owners subscribe
    idempotency_table  table of the actions that were carried out
    queue_url          queue of this function, in which findings of a quiet rule wait
    event_bus          bus from which webhooks take the messages ("": no webhooks)
    quiet_minutes      time after a message in which further findings of the rule are collected into one (0: none)
    default_actions    of events that name none
    """

    topic_arn: str
    idempotency_table: str
    queue_url: str = ""
    event_bus: str = ""
    quiet_minutes: int = 0
    default_actions: tuple[Action, ...] = DEFAULT_ACTIONS
