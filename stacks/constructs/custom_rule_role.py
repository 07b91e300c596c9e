"""Permissions of a container that runs a rule from a file: to read runs and the files. It can write nothing.

The code in it is not ours. Its only output is its own job's exit message (docs/decisions/0013-custom-rules-in-aws.md).
"""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.acknowledge import accept_wildcard, name_in_findings
from stacks.constructs.allow import allow
from stacks.constructs.processing_job_role import ProcessingJobRole
from trackside.contracts.run_layout import (
    PROFILES,
    RULE_OUTPUT,
    RULE_REQUEST_KEY,
    STATISTICS,
    TENSORS,
    TRAINING_JOB_KEY,
    WATERMARKS,
)

READABLE = (
    f"{TENSORS}/*",
    f"{STATISTICS}/*",
    f"{WATERMARKS}/*",
    f"{PROFILES}/*",
    RULE_REQUEST_KEY,
    f"{RULE_OUTPUT}/{TRAINING_JOB_KEY}",
)


class CustomRuleRole(ProcessingJobRole):
    """The role of the processing jobs that judge a run by a rule file below `place`, an s3:// prefix."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        runs: s3.IBucket,
        key: kms.IKey,
        repository: ecr.IRepository,
        place: str,
    ) -> None:
        description = "Trackside: judges a run by a rule from a file, in SageMaker processing jobs"
        super().__init__(scope, construct_id, description=description, repository=repository)
        bucket, _, prefix = place.removeprefix("s3://").partition("/")
        below = f"{prefix}/*" if prefix else "*"
        files = Stack.of(scope).format_arn(service="s3", region="", account="", resource=bucket, resource_name=below)
        allow(self, "FindRuns", ["s3:ListBucket"], [runs.bucket_arn], why="A trial lists what a run has written.")
        readable = [runs.arn_for_objects(f"*/{part}") for part in READABLE]
        allow(self, "ReadRuns", ["s3:GetObject"], readable, why="The data that rules judge, but no verdicts.")
        allow(self, "ReadRuleFiles", ["s3:GetObject"], [files], why="The files that this deployment runs.")
        allow(self, "ReadEncrypted", ["kms:Decrypt"], [key.key_arn], why="Runs are encrypted with this key.")
        for part in READABLE:
            accept_wildcard(self, f"{name_in_findings(runs)}/*/{part}", reason="A run lies where its job's tag says.")
        accept_wildcard(self, f"arn:<AWS::Partition>:s3:::{bucket}/{below}", reason="All files there are meant.")
