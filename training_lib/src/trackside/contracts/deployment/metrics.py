"""Names of CloudWatch metrics that are published in one place and read in another: alarms, scaling, dashboards."""

from __future__ import annotations

ISSUE_METRIC = "IssuesFound"  # counts issues in training jobs
_NAMESPACE = "Trackside"

FLEET_NAMESPACE = "Trackside/Fleet"
FLEET_DIMENSION = "Fleet"  # the one dimension: the event bus of the deployment
LOAD = "WorkerLoad"  # percent of the runs that a worker could judge at once
JUDGED_RUNS = "JudgedRuns"  # of one worker
WAITING_RUNS = "WaitingRuns"  # runs without a worker, as one worker saw them; 100 at most
LONGEST_WAIT = "LongestWait"  # seconds for which the first of them has waited


def issue_namespace(environment: str) -> str:
    """Return `Trackside`, or `Trackside/staging`: an alarm of one environment must not count another's issues."""
    return f"{_NAMESPACE}/{environment}" if environment else _NAMESPACE
