"""Settings of finish_run."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class FinishRunSettings(EnvironmentSettings):
    """Settings of the mark at the end of a run.

    run_bucket      bucket in which ended runs may be marked
    spoke_accounts  other accounts with jobs that are judged here
    """

    run_bucket: str
    spoke_accounts: tuple[str, ...]
