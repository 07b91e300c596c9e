"""Names that hub and spokes use of one another: by convention, so that neither needs the other's outputs.

Between accounts go: state changes of tagged training jobs, from a spoke's default bus to the hub's; the runs that a
spoke's training jobs write, into the hub's bucket below their account's number; the hub's stop of a tagged job, by a
role in the spoke that may do nothing else. docs/hub-and-spokes.md.
"""

from __future__ import annotations

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from stacks.deployment_settings import DeploymentSettings

SPOKE_SUFFIX, HUB_SUFFIX = "spoke", "hub-stop"


def spoke_role_name(settings: DeploymentSettings, region: str) -> str:
    """Return the name of the role in a spoke with which the hub stops a job."""
    return f"{settings.event_bus_name}-{SPOKE_SUFFIX}-{region}"


def hub_role_name(settings: DeploymentSettings, region: str) -> str:
    """Return the name of stop_training's role in the hub, which spokes trust."""
    return f"{settings.event_bus_name}-{HUB_SUFFIX}-{region}"


def role_arn(stack: Stack, account: str, name: str) -> str:
    """Return the ARN of a role of another account of the same partition."""
    return stack.format_arn(
        service="iam",
        region="",
        account=account,
        resource="role",
        resource_name=name,
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )


def let_spokes_write_runs(runs: s3.IBucket, key: kms.IKey, settings: DeploymentSettings) -> None:
    """Let each spoke's roles write runs below `<account>/`, and nowhere else.

    An existing bucket or key is its owner's and stays unchanged.
    """
    stack = Stack.of(runs)
    for account in settings.accounts.spoke_accounts:
        root = [iam.AccountPrincipal(account)]
        runs.add_to_resource_policy(
            iam.PolicyStatement(
                sid=f"RunsOf{account}",
                principals=root,
                actions=["s3:GetObject", "s3:PutObject"],
                resources=[runs.arn_for_objects(f"{account}/*")],
                conditions=_of_the_organization(settings),
            )
        )
        runs.add_to_resource_policy(
            iam.PolicyStatement(
                sid=f"ListRunsOf{account}",
                principals=root,
                actions=["s3:ListBucket"],
                resources=[runs.bucket_arn],
                conditions={**_of_the_organization(settings), "StringLike": {"s3:prefix": f"{account}/*"}},
            )
        )
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid=f"RunsOf{account}",
                principals=root,
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=["*"],  # in a key's own policy that is this key
                conditions={
                    "StringEquals": {
                        "kms:ViaService": f"s3.{stack.region}.{stack.url_suffix}",
                        **_of_the_organization(settings).get("StringEquals", {}),
                    }
                },
            )
        )


def _of_the_organization(settings: DeploymentSettings) -> dict[str, dict[str, str]]:
    return (
        {"StringEquals": {"aws:PrincipalOrgID": settings.accounts.organization}}
        if settings.accounts.organization
        else {}
    )
