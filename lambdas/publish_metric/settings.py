"""Settings of publish_metric."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import DEFAULT_ACTIONS, EnvironmentSettings
from trackside.contracts.action import Action

NAMESPACE = "Trackside"  # of IssuesFound; the function's role may write to no other
METRIC_NAME = "IssuesFound"


@dataclass(frozen=True)
class PublishMetricSettings(EnvironmentSettings):
    """`default_actions` hold for events that name none."""

    idempotency_table: str
    default_actions: tuple[Action, ...] = DEFAULT_ACTIONS
