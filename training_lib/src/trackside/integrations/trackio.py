"""Findings in trackio: an alert with the card for each problem, and the number of problems at the end."""

from __future__ import annotations

from typing import Any

import trackio
from trackio import context_vars

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Severity
from trackside.integrations.issue_text import issue_card, issue_title, outcome_of
from trackside.integrations.tracker_sink import TrackerSink

LEVELS = {
    Severity.INFO: trackio.AlertLevel.INFO,
    Severity.WARNING: trackio.AlertLevel.WARN,
    Severity.CRITICAL: trackio.AlertLevel.ERROR,
}


class Sink(TrackerSink):
    """Sends findings to a run of trackio, which passes alerts on to its webhook."""

    def _live_run(self) -> Any:
        """Return the live run of this thread."""
        return context_vars.current_run.get()

    def _send(self, run: Any, group: IssueGroup) -> None:
        """Send an alert."""
        run.alert(f"Trackside: {issue_title(group)}", f"```\n{issue_card(group)}\n```", level=LEVELS[group.severity])

    def _conclude(self, run: Any, groups: tuple[IssueGroup, ...], location: str) -> None:
        """Log the numbers of problems, and of those that recovered."""
        found = outcome_of(groups, location)
        run.log({"trackside/issues": found.issues, "trackside/recovered": found.recovered})


def export_issues(groups: tuple[IssueGroup, ...], destination: str, *, run: RunLocation) -> str:
    """Write the problems of a recorded run to a run of trackio, and return its name.

    Args:
        groups: The problems.
        destination: PROJECT for a new run, PROJECT/RUN for the one with this name.
        run: The run of Trackside.
    """
    project, _, name = destination.partition("/")
    opened = trackio.init(project=project, name=name or run.name, resume="allow", embed=False)
    Sink(opened).send_all(groups, run.uri)
    trackio.finish()
    return f"{opened.project}/{opened.name}"
