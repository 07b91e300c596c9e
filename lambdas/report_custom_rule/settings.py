"""Settings of report_custom_rule."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class ReportCustomRuleSettings(EnvironmentSettings):
    """Settings of report_custom_rule.

    event_bus  name of the bus of verdicts
    role_arn   role of the jobs that judge by a rule from a file. Jobs of any other role are ignored: anybody may name a
               job and put any text into it
    """

    event_bus: str
    role_arn: str
