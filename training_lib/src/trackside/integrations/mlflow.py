"""Findings in MLflow: a text for each problem, the result as tags, and the report as an artifact."""

from __future__ import annotations

import re

import mlflow

from trackside.contracts.issue_group import IssueGroup, recovered_groups
from trackside.contracts.run_layout import RunLocation
from trackside.integrations.issue_text import issue_card, issue_title, outcome_of
from trackside.integrations.report_page import FILE_NAME, report_page

RUN_ID = re.compile(r"[0-9a-f]{32}")
FOLDER = "trackside"  # of the artifacts


class MlflowSink:
    """Writes findings into a run of MLflow.

    Args:
        run_id: The run; "" for the active one of this process.
    """

    def __init__(self, run_id: str = "") -> None:
        self._run_id = run_id

    def issue(self, group: IssueGroup) -> None:
        """Write the card as an artifact, and a tag for the rule.

        Args:
            group: The problem.
        """
        run_id = self._active()
        if not run_id:
            return
        client = mlflow.MlflowClient()
        client.log_text(run_id, f"{issue_card(group)}\n", f"{FOLDER}/{group.lead.configuration_name}.txt")
        client.set_tag(run_id, f"trackside.{group.lead.configuration_name}", issue_title(group))

    def finish(self, groups: tuple[IssueGroup, ...], location: str) -> None:
        """Write the numbers and the severity of the problems as tags, and which of them recovered; add the report.

        Args:
            groups: All problems.
            location: Folder of the run of Trackside.
        """
        run_id = self._active()
        if not run_id:
            return
        client = mlflow.MlflowClient()
        found = outcome_of(groups, location)
        tags = {"issues": found.issues, "recovered": found.recovered, "worst": found.worst, "run": location}
        tags |= {group.lead.configuration_name: issue_title(group) for group in recovered_groups(groups)}
        for name, value in tags.items():
            client.set_tag(run_id, f"trackside.{name}", str(value))
        if page := report_page(location):
            client.log_text(run_id, page, f"{FOLDER}/{FILE_NAME}")

    def _active(self) -> str:
        active = None if self._run_id else mlflow.active_run()
        self._run_id = self._run_id or (active.info.run_id if active else "")
        return self._run_id


def live_sink() -> MlflowSink:
    """Return a sink for the active run of this process, at the time of each finding."""
    return MlflowSink()


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
    sink = MlflowSink(run_id)
    for group in groups:
        sink.issue(group)
    sink.finish(groups, run.uri)
    return f"{mlflow.get_tracking_uri()}, run {run_id}"
