"""Settings of publish_metric."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings
from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.deployment.metrics import issue_namespace


@dataclass(frozen=True)
class PublishMetricSettings(EnvironmentSettings):
    """Settings of the metric of issues.

    idempotency_table  table of the actions that were carried out
    namespace          of the metric; the function's role may write to no other
    default_actions    of events that name none
    """

    idempotency_table: str
    namespace: str = issue_namespace("")
    default_actions: tuple[Action, ...] = DEFAULT_ACTIONS
