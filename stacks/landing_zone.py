"""An organization's demands on everything deployed: a boundary on every role, a VPC, keys of its own.

Applied to the whole tree at once, so that later parts are not forgotten. docs/landing-zone.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IConstruct

from stacks.constructs.allow import allow
from stacks.constructs.processing_job_role import ProcessingJobRole
from stacks.constructs.python_lambda import PythonLambda
from stacks.deployment_settings import DeploymentSettings

C = TypeVar("C")
INTERFACES_KNOW_NO_RESOURCES = "EC2's calls for the network interfaces of a VPC know no resources before they are made."

# https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions
FUNCTION_IN_VPC = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html, the processing job's role
JOB_IN_VPC = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)


def fit_in(root: Construct, settings: DeploymentSettings) -> None:
    """Fit all parts below `root`, an app or a part of a stack, into the existing resources that the settings name."""
    if settings.place.permissions_boundary:
        places: list[Construct] = [*_all(root, Stack)]
        for place in places or [root]:
            policy = iam.ManagedPolicy.from_managed_policy_arn(place, "Boundary", settings.place.permissions_boundary)
            iam.PermissionsBoundary.of(place).apply(policy)
    for role in _all(root, ProcessingJobRole):
        _fit_in_role(role, settings)
    for function in _all(root, PythonLambda):
        function.add_environment("POWERTOOLS_SERVICE_NAME", settings.service_name(function.reaction))
    if settings.place.functions_in_vpc:
        for function in _all(root, PythonLambda):
            _join_vpc(function, settings)


def _fit_in_role(role: ProcessingJobRole, settings: DeploymentSettings) -> None:
    if settings.place.subnets:
        allow(role, "JoinTheVpc", JOB_IN_VPC, ["*"], why=f"Its jobs run there. {INTERFACES_KNOW_NO_RESOURCES}")
    if settings.evaluator.volume_key_arn:
        allow(
            role,
            "EncryptTheDisk",
            ["kms:CreateGrant"],
            [settings.evaluator.volume_key_arn],
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
            why="SageMaker encrypts the disks of its jobs with this key.",
        )


def _join_vpc(function: lambda_.Function, settings: DeploymentSettings) -> None:
    """Join the VPC by ids alone: CDK's own way looks up the VPC's zones, which nothing here needs."""
    resource = function.node.default_child
    if not isinstance(resource, lambda_.CfnFunction):
        raise TypeError(f"{function.node.path} is no function of CloudFormation.")
    resource.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
        subnet_ids=list(settings.place.subnets), security_group_ids=list(settings.place.security_groups)
    )
    why = f"It runs in the deployment's VPC. {INTERFACES_KNOW_NO_RESOURCES}"
    allow(function, "JoinTheVpc", FUNCTION_IN_VPC, ["*"], why=why)


def _all(root: IConstruct, kind: type[C]) -> Iterator[C]:
    for construct in root.node.find_all():
        if isinstance(construct, kind):
            yield construct
