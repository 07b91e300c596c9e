"""Permissions of the training job of `trackside drill`: to write its run, below a prefix that no other run has."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.acknowledge import accept_wildcard, name_in_findings
from stacks.constructs.allow import allow

PREFIX = "trackside-drill"  # as trackside.cloud.drill has it; a test holds the two together
LOG_GROUP = "/aws/sagemaker/TrainingJobs"  # SageMaker's own, for all training jobs of an account


class DrillRole(iam.Role):
    """The role of the one training job of a drill. `repository` holds its image, which is the rule container's."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        runs: s3.IBucket,
        key: kms.IKey,
        repository: ecr.IRepository,
    ) -> None:
        stack = Stack.of(scope)
        super().__init__(
            scope,
            construct_id,
            description="Trackside: the training job of a drill",
            # A service may take on this role for this account only, else any account's job could ask for it.
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
            ),
        )
        pull = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        allow(self, "PullTheImage", pull, [repository.repository_arn], why="Its image, and no other.")
        why = "To pull an image; the call knows no resources."
        allow(self, "LogIn", ["ecr:GetAuthorizationToken"], ["*"], why=why)
        log_group = stack.format_arn(service="logs", resource=f"log-group:{LOG_GROUP}")
        streams = f"{log_group}:log-stream:{PREFIX}-*"
        allow(
            self,
            "WriteLog",
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [log_group, streams],
            why="SageMaker keeps the logs of all training jobs there, and names their streams after the jobs.",
        )
        objects = runs.arn_for_objects(f"{PREFIX}/*")
        why = "Its purpose: the run of a drill is written, and no other."
        allow(self, "WriteTheRun", ["s3:GetObject", "s3:PutObject"], [objects], why=why)
        allow(
            self,
            "LookIntoTheRun",
            ["s3:ListBucket"],
            [runs.bucket_arn],
            conditions={"StringLike": {"s3:prefix": f"{PREFIX}/*"}},
            why="It waits until something judges its run.",
        )
        actions = ["kms:Decrypt", "kms:GenerateDataKey"]
        allow(self, "UseTheKey", actions, [key.key_arn], why="Runs are encrypted with this key.")
        accept_wildcard(self, "*", reason="ecr:GetAuthorizationToken knows no resources.")
        accept_wildcard(self, f"{name_in_findings(runs)}/{PREFIX}/*", reason="Each drill has a run of its own.")
        prefix = f"arn:<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>:log-group:{LOG_GROUP}"
        accept_wildcard(
            self, f"{prefix}:log-stream:{PREFIX}-*", reason="Streams are named by SageMaker, after the job."
        )
