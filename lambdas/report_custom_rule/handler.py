"""Report the verdict of an ended job that judged by a rule from a file: into the run, and onto the bus of verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.report_custom_rule.logic import Report, decide
from lambdas.report_custom_rule.settings import ReportCustomRuleSettings
from lambdas.shared.clients import client
from lambdas.shared.decisions import Done, Nothing
from lambdas.shared.reaction import reaction
from trackside.contracts.event import DETAIL_TYPE, SOURCE


@reaction
def handle(event: Mapping[str, Any], context: LambdaContext) -> Iterator[Done | Nothing]:
    settings = ReportCustomRuleSettings.from_environment()
    decision = decide(event, settings)
    yield decision if isinstance(decision, Nothing) else _report(decision, bus=settings.event_bus)


def _report(report: Report, *, bus: str) -> Done:
    """Store and send the report.

    A second delivery repeats both: the file is the same, and receivers act once per job.
    """
    client("s3").put_object(Bucket=report.bucket, Key=report.key, Body=f"{report.verdict.to_json()}\n".encode())
    detail = json.dumps(report.evaluation.to_detail(), separators=(",", ":"), allow_nan=False)
    entry = {"Source": SOURCE, "DetailType": DETAIL_TYPE, "Detail": detail, "EventBusName": bus}
    answer = client("events").put_events(Entries=[entry])
    if answer["FailedEntryCount"]:
        raise RuntimeError(f"The bus {bus} did not take the verdict: {answer['Entries'][0]}")
    return Done(f"{report.verdict.configuration_name}: {report.evaluation.status.value}. {report.verdict.message}")
