"""Findings in MLflow: a text for each problem, the result as tags, and the report as an artifact."""

from __future__ import annotations

import re

import mlflow

from trackside.contracts.issue_group import IssueGroup, recovered_groups
from trackside.contracts.run_layout import RunLocation
from trackside.integrations.issue_text import issue_card, issue_title, outcome_of
from trackside.integrations.report_page import FILE_NAME, report_page
from trackside.integrations.tracker_sink import TrackerSink

RUN_ID = re.compile(r"[0-9a-f]{32}")
FOLDER = "trackside"  # of the artifacts


class Sink(TrackerSink):
    """Writes findings into a run of MLflow, by its id."""

    def _live_run(self) -> str:
        """Return the id of the active run of this process; "" without one."""
        active = mlflow.active_run()
        return active.info.run_id if active else ""

    def _send(self, run: str, group: IssueGroup) -> None:
        """Write the card as an artifact, and a tag for the rule."""
        client = mlflow.MlflowClient()
        client.log_text(run, f"{issue_card(group)}\n", f"{FOLDER}/{group.lead.configuration_name}.txt")
        client.set_tag(run, f"trackside.{group.lead.configuration_name}", issue_title(group))

    def _conclude(self, run: str, groups: tuple[IssueGroup, ...], location: str) -> None:
        """Write the numbers and the severity of the problems as tags, and which of them recovered; add the report."""
        client = mlflow.MlflowClient()
        found = outcome_of(groups, location)
        tags = {"issues": found.issues, "recovered": found.recovered, "worst": found.worst, "run": location}
        tags |= {group.lead.configuration_name: issue_title(group) for group in recovered_groups(groups)}
        for name, value in tags.items():
            client.set_tag(run, f"trackside.{name}", str(value))
        if page := report_page(location):
            client.log_text(run, page, f"{FOLDER}/{FILE_NAME}")


def export_issues(groups: tuple[IssueGroup, ...], destination: str, *, run: RunLocation) -> str:
    """Write the problems of a recorded run to a run of MLflow, and return the address of that run.

    Args:
        groups: The problems.
        destination: The id of a run, or the name of an experiment for a new run.
        run: The run of Trackside.
    """
    client = mlflow.MlflowClient()
    if RUN_ID.fullmatch(destination):
        run_id = client.get_run(destination).info.run_id
    else:
        experiment = client.get_experiment_by_name(destination)
        experiment_id = experiment.experiment_id if experiment else client.create_experiment(destination)
        run_id = client.create_run(experiment_id, run_name=run.name).info.run_id
        client.set_terminated(run_id)
    Sink(run_id).send_all(groups, run.uri)
    return f"{mlflow.get_tracking_uri()}, run {run_id}"
