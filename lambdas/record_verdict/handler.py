"""Record a rule's verdict on a job, or the job's new state, with its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.record_verdict.logic import read
from lambdas.record_verdict.settings import RecordVerdictSettings
from lambdas.record_verdict.table_writer import record_in_time, record_job
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.each import each
from lambdas.shared.reaction import reaction
from lambdas.shared.run_table import RunTable
from lambdas.shared.runs import is_in


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = RecordVerdictSettings.from_environment()
    table = RunTable(settings.run_table, retention_days=settings.retention_days)
    content = read(event)
    if content.job and content.job.run_uri and not is_in(settings.run_bucket, content.job.run_uri):
        yield Nothing(f"{content.job.job.name} is tagged with {content.job.run_uri}, which is not this deployment's.")
    elif content.job:
        yield record_job(content.job, table)
    yield from each(content.history, lambda history: [record_in_time(history, table)])
