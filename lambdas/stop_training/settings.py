"""Settings of stop_training."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings
from trackside.contracts.action import DEFAULT_ACTIONS, Action


@dataclass(frozen=True)
class StopTrainingSettings(EnvironmentSettings):
    """Settings of a stop, and of the checks before it. 0 switches a check off.

    idempotency_table   table of the actions that were carried out
    run_table           table of runs
    queue_url           queue of this function, in which a stop waits for its veto
    topic_arn           topic of the announcements
    dry_run_parameter   SSM parameter that is `true` while nothing may be stopped
    stops_per_hour      training jobs at most (0: no limit)
    cool_down_minutes   time after a stop or a veto in which the same job is not stopped
    veto_minutes        time between announcement and stop (0: no announcement)
    after_findings      findings of a job that must ask for the stop
    after_rules         rules with a standing issue that must ask for it
    instance_prices     `ml.m5.large=0.12`, an hour
    retention_days      of an item in the table of runs (0: forever)
    pause_milliseconds  between two calls of SageMaker
    default_actions     of events that name none
    spoke_accounts      other accounts in which jobs are stopped, too
    spoke_role          name of the role in them
    external_id         that the role asks for
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
    instance_prices: tuple[str, ...] = ()
    retention_days: int = 365
    pause_milliseconds: int = 0
    default_actions: tuple[Action, ...] = DEFAULT_ACTIONS
    spoke_accounts: tuple[str, ...] = ()
    spoke_role: str = ""
    external_id: str = ""
