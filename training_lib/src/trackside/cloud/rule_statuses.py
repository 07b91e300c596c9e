"""The shape that DescribeTrainingJob gave scripts, from our own table: for accounts in which AWS fills it no more."""

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
AGAIN_SECONDS = 60.0  # after which a table that did not answer is asked again


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


def fill_rule_statuses(
    client: Any,
    *,
    table: RunTable | Callable[[], RunTable] = RunTable,
    monotonic: Callable[[], float] = time.monotonic,
) -> Any:
    """The same boto3 client of SageMaker, whose `describe_training_job` answers with the statuses of our rules too.

    So a loop over `DebugRuleEvaluationStatuses`, and the SDK's `fit` and `rule_job_summary` with this client in their
    session, work as they did. A job that SageMaker Debugger itself judges keeps the statuses that AWS gives. If the
    table cannot be read, the answer stays AWS's; the log says why, once, and it is tried again a minute later. `table`
    may be what finds it, at the first need of it.
    """
    filler = _Filler(table, monotonic)
    client.meta.events.register("after-call.sagemaker.DescribeTrainingJob", filler, unique_id=STATUSES)
    return client


class _Filler:
    """Adds to what boto3 has parsed."""

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
        except Exception as error:  # noqa: BLE001  whoever asks SageMaker gets its answer
            self._again_at = self._monotonic() + AGAIN_SECONDS
            if not self._has_complained:
                logger.warning("Trackside: the statuses of rules are not filled in. %s", error)
            self._has_complained = True
            return
        self._table = table
        if statuses:
            parsed[STATUSES] = statuses
