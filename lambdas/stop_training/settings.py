"""Settings of stop_training."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import DEFAULT_ACTIONS, EnvironmentSettings
from trackside.contracts.action import Action


@dataclass(frozen=True)
class StopTrainingSettings(EnvironmentSettings):
    """`dry_run`: say what would be stopped and stop nothing. `default_actions` hold for events that name none."""

    idempotency_table: str
    dry_run: bool = False
    default_actions: tuple[Action, ...] = DEFAULT_ACTIONS
