"""Settings of record_verdict."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class RecordVerdictSettings(EnvironmentSettings):
    """`retention_days`: when an item of the table is forgotten after its last change; 0: never. `run_bucket`: jobs
    whose runs lie elsewhere are another deployment's, or nobody's."""

    run_table: str
    run_bucket: str
    retention_days: int = 365
