"""Settings of the dashboard of a team: its name, its certificate and its network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stacks.settings.place import PARTITION
from stacks.settings.setting import each_matching, empty_or, matching, setting

LEAST_SUBNETS = 2  # of a balancer, in two zones
MOST_NETWORKS = 20

_CERTIFICATE = rf"{PARTITION}:acm:[a-z0-9-]+:\d{{12}}:certificate/[\w-]+"
_NETWORK = r"(\d{1,3}\.){3}\d{1,3}/\d{1,2}"


@dataclass(frozen=True)
class TeamDashboardSettings:
    """The [dashboard of a team](dashboard.md#in-an-aws-account) (no host: none is made).

    host             `runs.example.com`: its name, a record of your DNS
    certificate_arn  certificate of that name (ACM, in the deployment's region)
    prefix           of the runs in the bucket; none: those at its top
    reached_from     `10.0.0.0/8,…`: networks whose addresses reach it
    vpc              `vpc-…`: VPC of `vpc_subnets`, in which its balancer then is, without a way from the internet
    """

    host: str = setting(
        "",
        empty_or(matching(r"(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}", "'runs.example.com'")),
        key="team_dashboard_host",
    )
    certificate_arn: str = setting(
        "",
        empty_or(matching(_CERTIFICATE, "'arn:aws:acm:eu-central-1:123456789012:certificate/…'")),
        key="team_dashboard_certificate_arn",
    )
    prefix: str = setting("", empty_or(matching(r"[\w.-]+(/[\w.-]+)*", "'jobs'")), key="team_dashboard_prefix")
    reached_from: tuple[str, ...] = setting(
        ("0.0.0.0/0",),
        each_matching(_NETWORK, "a network", "10.0.0.0/8", MOST_NETWORKS),
        key="team_dashboard_reached_from",
    )
    vpc: str = setting(
        "", empty_or(matching(r"vpc-[0-9a-f]{8,17}", "'vpc-0123456789abcdef0'")), key="team_dashboard_vpc"
    )

    def place(self, bucket: str) -> str:
        """Return the place right below which it shows runs."""
        return f"s3://{bucket}/{self.prefix}".rstrip("/")


def team_dashboard_problems(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) of settings that do not go together. `values`: all, each of the right type."""
    host, certificate = values["team_dashboard_host"], values["team_dashboard_certificate_arn"]
    if bool(host) != bool(certificate):
        lacking = "team_dashboard_certificate_arn" if host else "team_dashboard_host"
        yield lacking, "is needed: the dashboard of a team has a name and its certificate."
    if values["team_dashboard_vpc"] and len(values["vpc_subnets"]) < LEAST_SUBNETS:
        yield "vpc_subnets", "must hold two subnets of team_dashboard_vpc, in two zones."
    if not values["team_dashboard_reached_from"]:
        yield "team_dashboard_reached_from", "must hold a network, or nobody reaches the dashboard."
