"""The known state of a job at the moment of a decision."""

from __future__ import annotations

from lambdas.shared.clients import client
from lambdas.shared.run_table import RunTable
from lambdas.stop_training.logic import Known
from trackside.contracts.deployment.run_table import JOB, RULE_PREFIX, JobRecord, RuleRecord
from trackside.contracts.deployment.stop_record import DECISION_PREFIX, VETO, DecisionRecord, VetoRecord


def read_known(arn: str, table: RunTable, *, dry_run_parameter: str) -> Known:
    """Return the state. Reads are consistent: they see the writes of earlier deliveries. Errors: `ClientError`."""
    by_key = {str(item["sk"]["S"]): item for item in table.about(arn)}
    decisions = [DecisionRecord.from_item(item) for key, item in by_key.items() if key.startswith(DECISION_PREFIX)]
    rules = [RuleRecord.from_item(item) for key, item in by_key.items() if key.startswith(RULE_PREFIX)]
    job, veto = by_key.get(JOB), by_key.get(VETO)
    return Known(
        decisions=tuple(decisions),
        rules={record.evaluation.configuration_name: record for record in rules},
        job=JobRecord.from_item(job) if job and "status" in job else None,
        veto=VetoRecord.from_item(veto) if veto else None,
        dry_run=_is_dry_run(dry_run_parameter),
    )


def _is_dry_run(parameter: str) -> bool:
    """Return True for every value except `false`, so that a mistyped switch stops nothing."""
    value = client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"]
    return str(value).strip().lower() != "false"
