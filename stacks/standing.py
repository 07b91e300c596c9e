"""Stacks that a setting asks for: without it `cdk deploy` leaves them standing, with their price."""

from __future__ import annotations

from aws_cdk import Annotations, Stack
from constructs import Construct

PRICES = {
    "spoke_accounts": "it costs nothing, but lets events of those accounts in",
    "team_dashboard_host": "balancer and container cost about 37 USD a month",
    "questions": "only what its bucket holds costs",
}


def warn_that_it_stays(scope: Construct, setting: str) -> None:
    """Let each synthesis and deployment name what ends a stack, and its price until then.

    Args:
        scope: Place of the parts. Within another's stack nothing is said: there they go with the setting.
        setting: Name of the setting that asks for the stack, one of `PRICES`.
    """
    if isinstance(scope, Stack):
        Annotations.of(scope).add_info(
            f"Taking trackside:{setting} away leaves this stack standing ({PRICES[setting]}). "
            f"This ends it: aws cloudformation delete-stack --stack-name {scope.stack_name}"
        )
