"""Settings of stop_training."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings
from trackside.contracts.action import DEFAULT_ACTIONS, Action


@dataclass(frozen=True)
class StopTrainingSettings(EnvironmentSettings):
    """The ladder that a finding climbs before its job is stopped.

    `dry_run_parameter` is the SSM parameter that says `true` while nothing may be stopped. 0 switches off:
    `stops_per_hour` (no limit), `cool_down_minutes` (none), `veto_minutes` (stops without announcement),
    `retention_days` (the table forgets nothing). `after_findings` and `after_rules`: so many findings of a job, and so
    many rules whose issue stands, ask for the stop before it is made. `instance_prices`: `ml.m5.large=0.12,...`, an
    hour. `default_actions` hold for events that name none. `spoke_accounts`: numbers with commas, of accounts in which
    jobs are stopped, too, by the role of the name `spoke_role`, which asks for `external_id`. `pause_milliseconds`
    keeps calls of SageMaker apart.
    """

    idempotency_table: str
    run_table: str
    queue_url: str
    topic_arn: str
    dry_run_parameter: str
    stops_per_hour: int = 20
    cool_down_minutes: int = 60
    veto_minutes: int = 0
    after_findings: int = 1
    after_rules: int = 1
    instance_prices: str = ""
    retention_days: int = 365
    pause_milliseconds: int = 0
    default_actions: tuple[Action, ...] = DEFAULT_ACTIONS
    spoke_accounts: str = ""
    spoke_role: str = ""
    external_id: str = ""
