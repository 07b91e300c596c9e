"""Stop the training process: `--rescue` goes back before a stop, and no other process follows one."""

from __future__ import annotations

from trackside.contracts.verdict import Severity, Verdict
from trackside.local.local_twins import ActingRun


def carry_out(verdict: Verdict, run: ActingRun) -> None:
    """Stop the training if the issue is critical: SIGTERM, then SIGKILL."""
    if verdict.severity is Severity.CRITICAL:
        run.stop_for(verdict)
