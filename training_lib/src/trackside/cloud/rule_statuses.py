"""DescribeTrainingJob's statuses of rules, from our own table: for accounts in which AWS no longer fills them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any

from trackside.cloud.run_table import RunTable
from trackside.contracts.deployment.run_table import RuleRecord

logger = logging.getLogger(__name__)

STATUSES = "DebugRuleEvaluationStatuses"
AGAIN_SECONDS = 60.0  # until a table that failed is read again


def debug_rule_evaluation_statuses(job: str, *, table: RunTable | None = None) -> list[dict[str, Any]]:
    """Return `DebugRuleEvaluationStatuses` of a training job, sorted by name.

    As SageMaker's, the list is empty for a job that no rule has judged yet. Raises the errors of `RunTable`.

    Args:
        job: Name or ARN of the training job.
        table: The table of runs; None: the deployment's.

    Returns:
        For each rule RuleConfigurationName, RuleEvaluationJobArn, RuleEvaluationStatus, StatusDetails and
        LastModifiedTime (a `datetime` in UTC).
    """
    table = table or RunTable()
    return statuses_of(table.rules(table.arn_of(job)))


def statuses_of(rules: Iterable[RuleRecord]) -> list[dict[str, Any]]:
    """Return `DebugRuleEvaluationStatuses` of records that were read before, sorted by name."""
    evaluations = sorted((record.evaluation for record in rules), key=lambda one: one.configuration_name)
    return [
        {
            "RuleConfigurationName": one.configuration_name,
            "RuleEvaluationJobArn": one.evaluation_job_arn,
            "RuleEvaluationStatus": one.status.value,
            "StatusDetails": one.details,
            "LastModifiedTime": datetime.fromtimestamp(one.modified_at, tz=timezone.utc),
        }
        for one in evaluations
    ]


def fill_rule_statuses(
    client: Any,
    *,
    table: RunTable | Callable[[], RunTable] = RunTable,
    monotonic: Callable[[], float] = time.monotonic,
) -> Any:
    """Make `describe_training_job` of a boto3 client return our rules' statuses too. Return the same client.

    Loops over `DebugRuleEvaluationStatuses`, and the SDK's `fit` and `rule_job_summary` with this client in their
    session, then work as before. A job that SageMaker Debugger itself judges keeps AWS's statuses. If the table cannot
    be read, the answer stays AWS's; the reason is logged once, and the table is tried again a minute later.

    Args:
        client: boto3's client of SageMaker.
        table: The table of runs, or a function that finds it when it is first needed.
        monotonic: Returns seconds.
    """
    filler = _Filler(table, monotonic)
    client.meta.events.register("after-call.sagemaker.DescribeTrainingJob", filler, unique_id=STATUSES)
    return client


class _Filler:
    """A handler that adds our statuses to boto3's parsed answer."""

    def __init__(self, table: RunTable | Callable[[], RunTable], monotonic: Callable[[], float]) -> None:
        self._table, self._monotonic = table, monotonic
        self._has_complained = False
        self._again_at = 0.0

    def __call__(self, *, parsed: dict[str, Any], **_: Any) -> None:
        is_ours = "TrainingJobArn" in parsed and not parsed.get(STATUSES)  # no error's answer; no rules of AWS
        if not is_ours or self._monotonic() < self._again_at:
            return
        try:
            table = self._table if isinstance(self._table, RunTable) else self._table()
            statuses = statuses_of(table.rules(parsed["TrainingJobArn"]))
        except Exception as error:  # noqa: BLE001  the caller gets SageMaker's answer in any case
            self._again_at = self._monotonic() + AGAIN_SECONDS
            if not self._has_complained:
                logger.warning("trackside: the statuses of rules are not filled in. %s", error)
            self._has_complained = True
            return
        self._table = table
        if statuses:
            parsed[STATUSES] = statuses
