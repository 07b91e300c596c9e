"""Settings of report_custom_rule."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class ReportCustomRuleSettings(EnvironmentSettings):
    """`event_bus` is the name of the bus that verdicts travel on. Jobs of any other role than `role_arn`, which is that
    of jobs which judge by a rule from a file, are not listened to: anybody may name a job and say anything in it."""

    event_bus: str
    role_arn: str
