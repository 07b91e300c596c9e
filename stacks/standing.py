"""Stacks that a setting asks for: without it `cdk deploy` leaves them standing, with their price."""

from __future__ import annotations

from aws_cdk import Annotations, Stack
from constructs import Construct

from stacks.optional_stacks import PRICES, ending_of


def warn_that_it_stays(scope: Construct, setting: str) -> None:
    """Let each synthesis and deployment name what ends a stack, and its price until then.

    Args:
        scope: Place of the parts. Within another's stack nothing is said: there they go with the setting.
        setting: Name of the setting that asks for the stack, one of `PRICES`.
    """
    if isinstance(scope, Stack):
        Annotations.of(scope).add_info(
            f"Taking trackside:{setting} away leaves this stack standing ({PRICES[setting]}). "
            f"{ending_of(scope.stack_name)}"
        )
