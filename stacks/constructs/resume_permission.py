"""The permission to create training jobs that go on in the place of stopped ones: only where the owner names roles."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_

from stacks.constructs.acknowledge import accept_wildcard
from stacks.constructs.allow import allow
from stacks.deployment_settings import DeploymentSettings
from trackside.contracts.job_choice import RESUMED_FROM_TAG, RUN_TAG
from trackside.contracts.run.resumption import NAME_MARK


def let_resume(function: lambda_.Function, settings: DeploymentSettings) -> None:
    """Let the function create jobs of our names and tags, with the roles that the settings list. None: nothing."""
    if not settings.stops.resume_roles:
        return
    stack = Stack.of(function)
    ours = stack.format_arn(service="sagemaker", resource="training-job", resource_name=f"*{NAME_MARK}*")
    marked = {f"aws:RequestTag/{tag}": "false" for tag in (RUN_TAG, RESUMED_FROM_TAG)}
    allow(
        function,
        "CreateJobsThatGoOn",
        ["sagemaker:CreateTrainingJob"],
        [ours],
        conditions={"Null": marked},
        why="Lets a job go on in the place of a stopped one (resume_roles). The names are ours, and each is watched.",
    )
    allow(
        function,
        "TagJobsThatGoOn",
        ["sagemaker:AddTags"],
        [ours],
        conditions={"Null": marked, "StringEquals": {"sagemaker:TaggingAction": "CreateTrainingJob"}},
        why="A job that goes on has its tags from its creation. Tags of a job that exists cannot be changed.",
    )
    allow(
        function,
        "PassTheRolesOfJobsThatGoOn",
        ["iam:PassRole"],
        list(settings.stops.resume_roles),
        conditions={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        why="A job that goes on has the role of the job before, if resume_roles lists it.",
    )
    jobs = stack.format_arn(service="sagemaker", resource="training-job", resource_name="*")
    why = "A job that goes on has the tags of the job before. Reads only."
    allow(function, "ReadTagsOfStoppedJobs", ["sagemaker:ListTags"], [jobs], why=why)
    accept_wildcard(
        function,
        f"arn:<AWS::Partition>:sagemaker:<AWS::Region>:<AWS::AccountId>:training-job/*{NAME_MARK}*",
        reason="A job that goes on is named after the job before, which is not known.",
    )
