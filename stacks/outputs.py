"""Outputs with names of their own, in a stack of ours or within another's."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct


def output(scope: Construct, name: str, *, value: str, description: str | None = None) -> None:
    """Create an output of that name, which commands look for, wherever in a stack `scope` is."""
    created = CfnOutput(scope, name, value=value, description=description)
    if not isinstance(scope, Stack):
        created.override_logical_id(name)
