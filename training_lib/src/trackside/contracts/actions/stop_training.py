"""Stop the training job."""

from __future__ import annotations

from trackside.contracts.action_unit import ActionUnit, Term

AFTER_FINDINGS = "after_findings"
VETO_MINUTES = "veto_minutes"
_WEEK = 7 * 24 * 60

UNIT = ActionUnit(
    word="StopTraining",
    name="stop_training",
    description="Stops the training job, by its exact ARN.",
    in_aws="[the ladder](#the-ladder-before-a-stop), then StopTrainingJob",
    locally="SIGTERM, then SIGKILL after `--grace`; critical issues only, from `after_findings` on",
    terms={
        AFTER_FINDINGS: Term(1, 100, "findings of this rule in the job that must ask for the stop"),
        VETO_MINUTES: Term(0, _WEEK, "minutes between the announcement and the stop; in AWS only", needs_aws=True),
    },
    stops=True,
)
