"""Findings in trackio: an alert with the card for each problem, and the number of problems at the end."""

from __future__ import annotations

from typing import Any

import trackio
from trackio import context_vars

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Severity
from trackside.integrations.issue_text import issue_card, issue_title, outcome_of

LEVELS = {
    Severity.INFO: trackio.AlertLevel.INFO,
    Severity.WARNING: trackio.AlertLevel.WARN,
    Severity.CRITICAL: trackio.AlertLevel.ERROR,
}


class TrackioSink:
    """Sends findings to a run of trackio, which passes alerts on to its webhook.

    Args:
        run: The run; None for the live one of this thread.
    """

    def __init__(self, run: Any = None) -> None:
        self._run = run

    def issue(self, group: IssueGroup) -> None:
        """Send an alert.

        Args:
            group: The problem.
        """
        run = self._live()
        if run is not None:
            card = f"```\n{issue_card(group)}\n```"
            run.alert(f"Trackside: {issue_title(group)}", card, level=LEVELS[group.severity])

    def finish(self, groups: tuple[IssueGroup, ...], location: str) -> None:
        """Log the numbers of problems, and of those that recovered.

        Args:
            groups: All problems.
            location: Folder of the run of Trackside.
        """
        run = self._live()
        if run is not None:
            found = outcome_of(groups, location)
            run.log({"trackside/issues": found.issues, "trackside/recovered": found.recovered})

    def _live(self) -> Any:
        self._run = self._run or context_vars.current_run.get()
        return self._run


def live_sink() -> TrackioSink:
    """Return a sink for the live run of this thread, at the time of each finding."""
    return TrackioSink()


def export_issues(groups: tuple[IssueGroup, ...], destination: str, *, run: RunLocation) -> str:
    """Write the problems of a recorded run to a run of trackio, and return its name.

    Args:
        groups: The problems.
        destination: PROJECT for a new run, PROJECT/RUN for the one with this name.
        run: The run of Trackside.
    """
    project, _, name = destination.partition("/")
    opened = trackio.init(project=project, name=name or run.name, resume="allow", embed=False)
    sink = TrackioSink(opened)
    for group in groups:
        sink.issue(group)
    sink.finish(groups, run.uri)
    trackio.finish()
    return f"{opened.project}/{opened.name}"
