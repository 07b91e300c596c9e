"""Find changes without an event, every few minutes, because the delivery of events is best effort."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.reconcile.settings import ReconcileSettings
from lambdas.reconcile.sweep import Sweep
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from lambdas.shared.run_table import RunTable
from lambdas.shared.runs import account_of, sent_at
from lambdas.shared.switch import remember_switch


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings, now = ReconcileSettings.from_environment(), time.time()
    due = sent_at(event)
    if due and due < now - settings.every_minutes * 60:
        # After an outage they would all come at once, and ask SageMaker the same.
        yield Nothing("this sweep is late, and the next one has begun since: it finds whatever this one would.")
        return
    table = RunTable(settings.run_table, retention_days=settings.retention_days)
    yield from Sweep(table, settings, account=account_of(context.invoked_function_arn)).run(now=now)
    remember_switch(settings.dry_run_parameter, table)
