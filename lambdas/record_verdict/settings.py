"""Settings of record_verdict."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class RecordVerdictSettings(EnvironmentSettings):
    """Settings of record_verdict.

    run_table       table of runs
    run_bucket      bucket of runs: jobs with runs in another are another deployment's, or unknown
    retention_days  of an item in the table after its last change (0: forever)
    """

    run_table: str
    run_bucket: str
    retention_days: int
