"""Findings in Weights & Biases: an alert for each problem, the result in summary, config and tags, and the report."""

from __future__ import annotations

from typing import Any

import wandb

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Severity
from trackside.integrations.issue_text import issue_card, issue_title, outcome_of
from trackside.integrations.report_page import FILE_NAME, report_page
from trackside.integrations.tracker_sink import TrackerSink

LEVELS = {
    Severity.INFO: wandb.AlertLevel.INFO,
    Severity.WARNING: wandb.AlertLevel.WARN,
    Severity.CRITICAL: wandb.AlertLevel.ERROR,
}
TAG = "trackside: "
MOST_TITLE_CHARACTERS = 63  # as the documentation of `Run.alert` requires


class Sink(TrackerSink):
    """Sends findings to a run of W&B."""

    def _live_run(self) -> Any:
        """Return the live run of this process."""
        return wandb.run

    def _send(self, run: Any, group: IssueGroup) -> None:
        """Send an alert."""
        title = f"Trackside: {issue_title(group)}"[:MOST_TITLE_CHARACTERS]
        run.alert(title, f"```\n{issue_card(group)}\n```", level=LEVELS[group.severity])

    def _conclude(self, run: Any, groups: tuple[IssueGroup, ...], location: str) -> None:
        """Write the numbers and the severity of the problems into summary, config and tags; add the report."""
        found = outcome_of(groups, location)
        run.summary["trackside/issues"] = found.issues
        run.summary["trackside/recovered"] = found.recovered
        run.summary["trackside/worst"] = found.worst
        run.summary["trackside/findings"] = list(found.titles)
        run.config.update({"trackside": {"run": location, "worst": found.worst}}, allow_val_change=True)
        others = [tag for tag in run.tags or () if not tag.startswith(TAG)]
        run.tags = (*others, f"{TAG}{found.worst}")
        if page := report_page(location):
            # The name of an artifact may hold letters, digits, `-`, `_` and `.` only.
            artifact = wandb.Artifact(f"trackside-report-{run.id}", type="report")
            with artifact.new_file(FILE_NAME, encoding="utf-8") as file:
                file.write(page)
            run.log_artifact(artifact)


def export_issues(groups: tuple[IssueGroup, ...], destination: str, *, run: RunLocation) -> str:
    """Write the problems of a recorded run to a run of W&B, and return the address of that run.

    Args:
        groups: The problems.
        destination: PROJECT for a new run, PROJECT/RUN or ENTITY/PROJECT/RUN for the one with this id.
        run: The run of Trackside.
    """
    *entity, project, run_id = destination.split("/") if "/" in destination else (destination, "")
    settings = {"project": project, "entity": "/".join(entity) or None, "name": run.name}
    if run_id:
        settings = {**settings, "id": run_id, "name": None, "resume": "allow"}
    with wandb.init(**settings) as opened:
        Sink(opened).send_all(groups, run.uri)
        return str(opened.url or opened.path)
