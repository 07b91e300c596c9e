"""Writes evaluations of rules to the table, while other deliveries may write them too."""

from __future__ import annotations

import time

from aws_lambda_powertools.metrics import MetricUnit

from lambdas.record_verdict.logic import decide
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.observability import metrics
from lambdas.shared.run_table import REFUSED, RunTable
from trackside.contracts.deployment.reaction_metrics import DETECTION_LATENCY
from trackside.contracts.deployment.run_table import HistoryRecord, JobRecord

MOST_TRIES = 5  # then the message waits in its queue


def record_job(job: JobRecord, table: RunTable) -> Done | Nothing:
    """Write the state of a training job, unless the same or a later one is recorded."""
    what = f"{job.job.name} is {job.status}"
    return Done(f"{what}.") if table.put_job(job) else Nothing(f"{what}: that or more is known.")


def record_in_time(history: HistoryRecord, table: RunTable) -> Done | Nothing:
    """Call `record`, and count the time from the verdict to its record."""
    answer = record(history, table)
    if isinstance(answer, Done) and history.evaluation.modified_at:
        seconds = time.time() - history.evaluation.modified_at
        # Clocks of two machines may differ, so it may come out below zero.
        metrics.add_metric(name=DETECTION_LATENCY, unit=MetricUnit.Seconds, value=max(seconds, 0.0))
    return answer


def record(history: HistoryRecord, table: RunTable) -> Done | Nothing:
    """Write the evaluation. Errors: `TimeoutError` if other functions kept changing the same rule's record."""
    one = history.evaluation
    for _ in range(MOST_TRIES):
        known = table.rule(one.job.arn, one.configuration_name)
        decision = decide(history, known)
        if isinstance(decision, Nothing):
            return decision
        hindrance = table.put_evaluation(history, decision, known=known)
        if hindrance == REFUSED:
            return Nothing(f"an earlier delivery recorded {one.configuration_name} of {one.job.name}.")
        if not hindrance:
            return Done(f"{one.configuration_name} of {one.job.name} is {one.status.value}.")
    raise TimeoutError(f"The record of {one.configuration_name} of {one.job.name} kept changing: {hindrance}.")
