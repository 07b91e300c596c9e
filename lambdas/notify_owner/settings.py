"""Settings of notify_owner."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import DEFAULT_ACTIONS, EnvironmentSettings
from trackside.contracts.action import Action


@dataclass(frozen=True)
class NotifyOwnerSettings(EnvironmentSettings):
    """`topic_arn` is where owners subscribe. `default_actions` hold for events that name none."""

    topic_arn: str
    idempotency_table: str
    default_actions: tuple[Action, ...] = DEFAULT_ACTIONS
