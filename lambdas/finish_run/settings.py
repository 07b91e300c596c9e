"""Settings of finish_run."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class FinishRunSettings(EnvironmentSettings):
    """`run_bucket` is the bucket in which ended runs may be marked. `spoke_accounts`: numbers with commas, of other
    accounts whose jobs are judged here."""

    run_bucket: str
    spoke_accounts: str = ""
