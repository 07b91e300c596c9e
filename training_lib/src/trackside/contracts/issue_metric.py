"""The metric that counts issues in training jobs. Several deployments in an account have a namespace each."""

from __future__ import annotations

METRIC_NAME = "IssuesFound"
_NAMESPACE = "Trackside"


def issue_namespace(environment: str) -> str:
    """`Trackside`, or `Trackside/staging`. An alarm of one environment must not speak of another's training."""
    return f"{_NAMESPACE}/{environment}" if environment else _NAMESPACE
