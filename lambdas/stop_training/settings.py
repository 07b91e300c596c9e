"""Settings of stop_training."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import ActionSettings


@dataclass(frozen=True)
class StopTrainingSettings(ActionSettings):
    """Settings of a stop, and of the checks before it. 0 switches a check off.

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
    spoke_accounts      other accounts in which jobs are stopped, too
    spoke_role          name of the role in them
    external_id         that the role asks for
    resume_roles        ARNs of roles with which jobs may go on in the place of stopped ones (none: no job does)
    resumes_per_job     such jobs in a row, at most
    """

    run_table: str
    queue_url: str
    topic_arn: str
    dry_run_parameter: str
    stops_per_hour: int
    cool_down_minutes: int
    veto_minutes: int
    after_findings: int
    after_rules: int
    instance_prices: tuple[str, ...]
    retention_days: int
    pause_milliseconds: int
    spoke_accounts: tuple[str, ...]
    spoke_role: str
    external_id: str
    resume_roles: tuple[str, ...]
    resumes_per_job: int
