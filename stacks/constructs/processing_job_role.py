"""Permissions of every rule container: its image and its log. It gets no others than those that are added."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.acknowledge import accept_wildcard
from stacks.constructs.allow import allow

LOG_GROUP = "/aws/sagemaker/ProcessingJobs"  # SageMaker's own, for all processing jobs of an account
LOG_GROUP_IN_FINDINGS = f"arn:<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>:log-group:{LOG_GROUP}"


class ProcessingJobRole(iam.Role):
    """The role of processing jobs with an image of `repository`."""

    def __init__(self, scope: Construct, construct_id: str, *, description: str, repository: ecr.IRepository) -> None:
        stack = Stack.of(scope)
        super().__init__(
            scope,
            construct_id,
            description=description,
            # A service may take on this role for this account only, else any account's job could ask for it.
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
            ),
        )
        log_group = stack.format_arn(service="logs", resource=f"log-group:{LOG_GROUP}")
        let_pull(self, repository)
        allow(
            self,
            "WriteLog",
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [log_group, f"{log_group}:log-stream:*"],
            why="SageMaker keeps the logs of all processing jobs there, and names their streams after the jobs.",
        )
        # https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html#sagemaker-roles-createprocessingjob-perms
        allow(
            self,
            "PutMetrics",
            ["cloudwatch:PutMetricData"],
            ["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/ProcessingJobs"}},
            why="SageMaker counts memory and processor of the job in its name. The call knows no resources.",
        )
        accept_wildcard(self, "*", reason="ecr:GetAuthorizationToken and cloudwatch:PutMetricData know no resources.")
        streams = f"{LOG_GROUP_IN_FINDINGS}:log-stream:*"
        accept_wildcard(self, streams, reason="Streams are named by SageMaker, after the job.")


def let_pull(role: iam.Role, repository: ecr.IRepository) -> None:
    """Let a role start a container of the repository's images."""
    allow(
        role,
        "PullTheImage",
        ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
        [repository.repository_arn],
        why="Its image, and no other.",
    )
    why = "To pull an image; the call knows no resources."
    allow(role, "LogIn", ["ecr:GetAuthorizationToken"], ["*"], why=why)
