"""The shape that DescribeTrainingJob gave scripts, from our own table: for accounts in which AWS fills it no more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from trackside.cloud.run_table import RunTable
from trackside.contracts.run_table import RuleRecord


def debug_rule_evaluation_statuses(job: str, *, table: RunTable | None = None) -> list[dict[str, Any]]:
    """`DebugRuleEvaluationStatuses` of the training job of that name or ARN: a list of RuleConfigurationName,
    RuleEvaluationJobArn, RuleEvaluationStatus, StatusDetails and LastModifiedTime (a `datetime` in UTC), by name.

    As SageMaker's, it is empty for a job that no rule has judged yet. Errors: as of `RunTable`.
    """
    table = table or RunTable()
    return statuses_of(table.rules(table.arn_of(job)))


def statuses_of(rules: Iterable[RuleRecord]) -> list[dict[str, Any]]:
    """The same, of records that were read before."""
    said = sorted((record.evaluation for record in rules), key=lambda one: one.configuration_name)
    return [
        {
            "RuleConfigurationName": one.configuration_name,
            "RuleEvaluationJobArn": one.evaluation_job_arn,
            "RuleEvaluationStatus": one.status.value,
            "StatusDetails": one.details,
            "LastModifiedTime": datetime.fromtimestamp(one.modified_at, tz=timezone.utc),
        }
        for one in said
    ]
