"""One more permission of a role, with the reason: the table in docs/permissions.md shows both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

WHY = "trackside:why"  # the kind of metadata: statement id -> reason


def allow(
    principal: lambda_.Function | iam.Role,
    sid: str,
    actions: Sequence[str],
    resources: Sequence[str],
    *,
    why: str,
    conditions: Mapping[str, Any] | None = None,
) -> None:
    """Add a permission. `sid` names the statement within its role, and stands in the deployed policy, too."""
    role = principal.role if isinstance(principal, lambda_.Function) else principal
    if role is None:
        raise ValueError(f"{principal.node.path} has no role.")
    role.add_to_principal_policy(
        iam.PolicyStatement(sid=sid, actions=list(actions), resources=list(resources), conditions=conditions)
    )
    role.node.add_metadata(WHY, {sid: why})
