"""The permission to stop training jobs: the same in the deployment's own account and in each spoke."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from stacks.constructs.acknowledge import accept_wildcard
from stacks.constructs.allow import allow
from stacks.deployment_settings import DeploymentSettings
from trackside.contracts.action import Action
from trackside.contracts.job_choice import ACTIONS_TAG, RUN_TAG


def let_stop(principal: lambda_.Function | iam.Role, settings: DeploymentSettings) -> None:
    """Let a principal stop jobs with our tag. Jobs of SageMaker Debugger have none; a deployment may include them."""
    jobs = Stack.of(principal).format_arn(service="sagemaker", resource="training-job", resource_name="*")
    stopping = [action for action in Action if action.unit.stops]
    stops_by_default = bool({*stopping} & {*settings.default_actions})
    allow(
        principal,
        "StopTrainingJobs",
        ["sagemaker:StopTrainingJob"],
        [jobs],
        conditions=None if stops_by_default else {"Null": {f"aws:ResourceTag/{RUN_TAG}": "false"}},
        why="Its purpose. The jobs to come are not known; only those that opted in by their tag may be stopped.",
    )
    if not stops_by_default:
        allow(
            principal,
            "StopJobsWhoseTagAsksForIt",
            ["sagemaker:StopTrainingJob"],
            [jobs],
            conditions={"StringLike": {f"aws:ResourceTag/{ACTIONS_TAG}": [f"*{action.value}*" for action in stopping]}},
            why="Jobs of SageMaker Debugger carry no tag of a run; those that ask by this one may be stopped.",
        )
    allow(
        principal,
        "SeeWhenAJobStopped",
        ["sagemaker:DescribeTrainingJob"],
        [jobs],
        why="The time at which a job began to stop shows whether a request without an answer did it. Reads only.",
    )
    accept_wildcard(
        principal,
        "arn:<AWS::Partition>:sagemaker:<AWS::Region>:<AWS::AccountId>:training-job/*",
        reason="The jobs to come are not known; a condition narrows stops to tagged ones.",
    )
