"""The known state of a job at the moment of a decision."""

from __future__ import annotations

from lambdas.shared.run_table import RunTable
from lambdas.shared.switch import forbids_stops
from lambdas.stop_training.logic import Known
from trackside.contracts.deployment.run_table import JOB, RULE_PREFIX, JobRecord, RuleRecord, is_about
from trackside.contracts.deployment.stop_record import DECISION_PREFIX, VETO, DecisionRecord, VetoRecord
from trackside.contracts.event import TrainingJob


def read_known(job: TrainingJob, table: RunTable, *, dry_run_parameter: str, found_at: float) -> Known:
    """Return the state. Reads are consistent: they see the writes of earlier deliveries. Errors: `ClientError`.

    What is known of an earlier job of that name is left out.
    """
    by_key = {str(item["sk"]["S"]): item for item in table.about(job.arn)}
    decisions = [DecisionRecord.from_item(item) for key, item in by_key.items() if key.startswith(DECISION_PREFIX)]
    rules = [RuleRecord.from_item(item) for key, item in by_key.items() if key.startswith(RULE_PREFIX)]
    state = JobRecord.from_item(by_key[JOB]) if "status" in by_key.get(JOB, ()) else None
    veto = VetoRecord.from_item(by_key[VETO]) if VETO in by_key else None
    return Known(
        decisions=tuple(one for one in decisions if is_about(job, one.evaluation, at=one.at)),
        rules={
            one.evaluation.configuration_name: one
            for one in rules
            if is_about(job, one.evaluation, at=one.evaluation.modified_at)
        },
        job=state if state and state.created_at >= job.created_at else None,
        veto=veto if veto and veto.at >= job.created_at else None,
        dry_run=forbids_stops(dry_run_parameter, table),
        found_at=found_at,
    )
