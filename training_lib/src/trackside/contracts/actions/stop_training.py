"""Stop the training job."""

from __future__ import annotations

from trackside.contracts.action_unit import ActionUnit

AFTER_FINDINGS = "after_findings"  # number of findings of this rule in the job that ask for the stop
VETO_MINUTES = "veto_minutes"  # minutes between the announcement and the stop
_WEEK = 7 * 24 * 60

UNIT = ActionUnit(
    word="StopTraining",
    name="stop_training",
    description="Stops the training job, by its exact ARN.",
    terms={AFTER_FINDINGS: (1, 100), VETO_MINUTES: (0, _WEEK)},
)
