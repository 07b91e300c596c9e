"""The shape that DescribeTrainingJob gave scripts, from our own table: for accounts in which AWS fills it no more."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from trackside.cloud.run_table import RunTable
from trackside.contracts.errors import TracksideError
from trackside.contracts.run_table import RuleRecord

logger = logging.getLogger(__name__)

STATUSES = "DebugRuleEvaluationStatuses"


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


def fill_rule_statuses(client: Any, *, table: RunTable | None = None) -> Any:
    """The same boto3 client of SageMaker, whose `describe_training_job` answers with the statuses of our rules too.

    So a loop over `DebugRuleEvaluationStatuses`, and the SDK's `fit` and `rule_job_summary` with this client in their
    session, work as they did. A job that SageMaker Debugger itself judges keeps the statuses that AWS gives. If the
    table cannot be read, the answer stays AWS's; the log says why, once.
    """
    client.meta.events.register("after-call.sagemaker.DescribeTrainingJob", _Filler(table), unique_id=STATUSES)
    return client


class _Filler:
    """Adds to what boto3 has parsed. The table is looked for at the first need of it."""

    def __init__(self, table: RunTable | None) -> None:
        self._table = table
        self._has_complained = False

    def __call__(self, *, parsed: dict[str, Any], **_: Any) -> None:
        if "TrainingJobArn" not in parsed or parsed.get(STATUSES):  # an error's answer; AWS's own rules
            return
        try:
            self._table = self._table or RunTable()
            statuses = statuses_of(self._table.rules(parsed["TrainingJobArn"]))
        except TracksideError as error:
            if not self._has_complained:
                logger.warning("Trackside: the statuses of rules are not filled in. %s", error)
            self._has_complained = True
            return
        if statuses:
            parsed[STATUSES] = statuses
