"""A rule said something of a job, or the job changed its state: remember it, with its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.record_verdict.logic import read
from lambdas.record_verdict.remember import remember
from lambdas.record_verdict.settings import RecordVerdictSettings
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from lambdas.shared.run_table import RunTable


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = RecordVerdictSettings.from_environment()
    table = RunTable(settings.run_table, retention_days=settings.retention_days)
    told = read(event)
    if told.job:
        what = f"{told.job.job.name} is {told.job.status}"
        yield Done(f"{what}.") if table.put_job(told.job) else Nothing(f"{what}: that or more is known.")
    for said in told.said:
        yield remember(said, table)
