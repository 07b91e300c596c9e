"""Settings of reconcile."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class ReconcileSettings(EnvironmentSettings):
    """Settings of a sweep over SageMaker's jobs and the table of runs.

    run_table           table of runs
    start_queue_url     queue of start_evaluation, for starts and ends without an event
    record_queue_url    queue of record_verdict, for states without an event
    run_bucket          bucket of runs
    retention_days      of an item in the table of runs (0: forever)
    evaluator_mode      `per-job`, `per-rule` or `fleet`
    lease_table         `fleet`: table of the runs that it judges
    silence_minutes     time without a sign of life after which an evaluator counts as silent
    dry_run_parameter   SSM parameter that forbids stops; its state is remembered
    most_looked_after   evaluators in a sweep that are checked for signs of life, at most
    every_minutes       between the begins of two sweeps
    grace_seconds       age from which a job is looked at: the time that its events may take
    most_pages          pages of 100 jobs that a sweep lists, at most
    most_described      jobs that a sweep describes one by one, at most
    list_pause_seconds  between two pages: ListTrainingJobs takes two calls a second in an account
    sends_untagged      True: starts of jobs without the tag are sent, too, because they may be watched
    untagged_seconds    age of a job from which its start is sent once
    """

    run_table: str
    start_queue_url: str
    record_queue_url: str
    run_bucket: str
    retention_days: int
    evaluator_mode: str
    lease_table: str
    silence_minutes: int
    every_minutes: int
    sends_untagged: bool
    dry_run_parameter: str
    most_looked_after: int = 100
    grace_seconds: int = 60
    most_pages: int = 100
    most_described: int = 50
    list_pause_seconds: int = 1
    untagged_seconds: int = 1200
