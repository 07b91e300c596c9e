"""Settings of reconcile."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings
from trackside.contracts.deployment.evaluators import PER_JOB


@dataclass(frozen=True)
class ReconcileSettings(EnvironmentSettings):
    """One sweep over what SageMaker says and what the table holds.

    What an event should have said is sent to the queues that the event would have reached. `grace_seconds`: how long
    events may take. `most_pages` (of 100 jobs) and `most_asked` (jobs that are asked about one by one) keep a sweep
    within the function's time and the API's rates; `list_pause_seconds` with them: ListTrainingJobs takes two calls a
    second in an account, whoever makes them. Of `most_looked_after` evaluators a sweep looks for signs of life; who has
    given none for `silence_minutes` counts as silent. `evaluator_mode`: what evaluators are; with `fleet` the runs that
    it has stand in `lease_table`. `every_minutes`: how often a sweep begins. `tells_untagged`:
    jobs without the tag may be watched, too, so their starts are told; for a job older than `untagged_seconds` once.
    """

    run_table: str
    start_queue_url: str
    finish_queue_url: str
    record_queue_url: str
    run_bucket: str
    retention_days: int = 365
    evaluator_mode: str = PER_JOB
    lease_table: str = ""
    silence_minutes: int = 30
    most_looked_after: int = 100
    every_minutes: int = 5
    grace_seconds: int = 300
    most_pages: int = 100
    most_asked: int = 50
    list_pause_seconds: int = 1
    tells_untagged: bool = False
    untagged_seconds: int = 1200
