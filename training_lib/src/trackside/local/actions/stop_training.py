"""Stop the training process."""

from __future__ import annotations

from trackside.contracts.action import Action
from trackside.contracts.actions.stop_training import AFTER_FINDINGS
from trackside.contracts.verdict import Severity, Verdict
from trackside.local.local_twins import ActingRun


def carry_out(verdict: Verdict, run: ActingRun) -> None:
    """Stop the training if the issue is critical and the rule has found enough of them: SIGTERM, then SIGKILL."""
    least = verdict.terms.value(Action.STOP_TRAINING, AFTER_FINDINGS, 1)
    if verdict.severity is Severity.CRITICAL and verdict.occurrence >= least:
        run.stop_for(verdict)
