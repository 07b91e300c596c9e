"""Show the issue in the terminal."""

from __future__ import annotations

from trackside.contracts.verdict import Verdict
from trackside.local.local_twins import ActingRun


def carry_out(verdict: Verdict, run: ActingRun) -> None:
    """Show a card with the issue."""
    run.show(verdict)
