"""A job of AWS Batch, in the account of moto."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.training_lib.local.verdicts import issue
from trackside.clusters.batch import batch_job
from trackside.local.jobs.scheduler import JobError


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws(config={"batch": {"use_docker": False}}):
        yield boto3.client("batch")


@pytest.mark.parametrize(
    ("variables", "facts"),
    [
        pytest.param({"AWS_BATCH_JOB_ATTEMPT": "1"}, ("a-b", None, 0), id="first-attempt"),
        pytest.param({"AWS_BATCH_JOB_ATTEMPT": "3"}, ("a-b", None, 2), id="third-attempt"),
        pytest.param({"AWS_BATCH_JOB_ID": "a-b:7", "AWS_BATCH_JOB_ARRAY_INDEX": "7"}, ("a-b:7", 7, 0), id="array"),
    ],
)
def test_its_facts(variables: dict[str, str], facts: tuple[str, int | None, int]) -> None:
    found = batch_job({"AWS_BATCH_JOB_ID": "a-b", "AWS_BATCH_JQ_NAME": "gpus", **variables})
    assert found is not None
    assert (found.job.id, found.job.array_index, found.job.restarts) == facts
    assert found.job.name == "gpus"


def test_elsewhere_there_is_none() -> None:
    assert batch_job({"AWS_BATCH_JQ_NAME": "gpus"}) is None


def test_a_stop_terminates_the_job_with_its_reason(batch: Any, tmp_path: Path) -> None:
    job = submitted(batch)
    found = batch_job({"AWS_BATCH_JOB_ID": job})
    assert found is not None
    found.report(issue(), tmp_path)
    found.withhold("exploding-tensor is critical.")
    assert batch.describe_jobs(jobs=[job])["jobs"][0].get("statusReason") is None
    found.end("exploding-tensor is critical.")
    assert batch.describe_jobs(jobs=[job])["jobs"][0]["statusReason"] == "trackside: exploding-tensor is critical."


def test_a_refusal_is_a_sentence(batch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    found = batch_job({"AWS_BATCH_JOB_ID": "a-b"})
    assert found is not None
    with pytest.raises(JobError, match=r"AWS Batch did not terminate a-b: .*credentials"):
        found.end("exploding-tensor is critical.")


def submitted(batch: Any) -> str:
    """Submit a job that waits, and return its id."""
    iam, ec2 = boto3.client("iam"), boto3.client("ec2")
    role = iam.create_role(RoleName="batch", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
    environment = batch.create_compute_environment(
        computeEnvironmentName="gpus",
        type="MANAGED",
        serviceRole=role,
        computeResources={"type": "FARGATE", "maxvCpus": 1, "subnets": [subnet], "securityGroupIds": [group]},
    )["computeEnvironmentArn"]
    order = [{"order": 1, "computeEnvironment": environment}]
    queue = batch.create_job_queue(jobQueueName="gpus", priority=1, state="ENABLED", computeEnvironmentOrder=order)[
        "jobQueueArn"
    ]
    definition = batch.register_job_definition(
        jobDefinitionName="digits",
        type="container",
        containerProperties={"image": "digits:1", "vcpus": 1, "memory": 128},
    )["jobDefinitionArn"]
    job: str = batch.submit_job(jobName="digits", jobQueue=queue, jobDefinition=definition)["jobId"]
    return job
