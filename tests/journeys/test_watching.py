"""Who is watched, in the deployed chain: by tag, by environment, not at all; and what becomes of what they chose.

A tuning job's training jobs are played by jobs with equal tags and environment, as SageMaker makes them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from lambdas.shared.processing_jobs import processing_job_name
from tests.journeys.waiting import eventually
from tests.stacks.variants import WATCHING
from trackside.cli import main
from trackside.contracts.event import TrainingJob
from trackside.sagemaker.attachment import attach_to_request, plan_attachment
from trackside_localaccount.deploy import deploy
from trackside_localaccount.provision import create_inbox, create_role
from trackside_localaccount.server import LocalAccount

pytestmark = pytest.mark.xdist_group("local-account")  # one account at a time in a process

TRAINS_UNTIL_STOPPED = "import signal; print('training', flush=True); signal.pause()"


class Cloud:
    """The account with a deployment that watches in every way; evaluators end at once."""

    def __init__(self, account: LocalAccount) -> None:
        from stacks.assembly import assembly

        self.account = account
        stacks = deploy(assembly(WATCHING), account)
        self.outputs = {name: value for outputs in stacks.values() for name, value in outputs.items()}
        self.bucket = self.outputs["RunBucketName"]
        account.register_image("trackside-evaluator", [sys.executable, "-c", "pass"])
        self.inbox = create_inbox(account, "inbox", self.outputs["IssueTopicArn"])
        self.role = create_role(account, "training")

    def train(self, request: dict[str, Any]) -> TrainingJob:
        whole = {
            "AlgorithmSpecification": {
                "TrainingImage": "training",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": [sys.executable, "-c", TRAINS_UNTIL_STOPPED],
            },
            "RoleArn": self.role,
            "OutputDataConfig": {"S3OutputPath": "s3://anywhere"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
            **request,
        }
        arn = self.account.client("sagemaker").create_training_job(**whole)["TrainingJobArn"]
        return TrainingJob(request["TrainingJobName"], arn)

    def tags(self, job: TrainingJob) -> dict[str, str]:
        found = self.account.client("sagemaker").list_tags(ResourceArn=job.arn)["Tags"]
        return {tag["Key"]: tag["Value"] for tag in found}

    def rules(self, prefix: str) -> list[tuple[str, list[str]]] | None:
        """Name and actions of what the run's request asks for."""
        s3 = self.account.client("s3")
        key = f"{prefix}/rule-request.json"
        if not s3.list_objects_v2(Bucket=self.bucket, Prefix=key)["KeyCount"]:
            return None
        request = json.loads(s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())
        return [(rule["name"], rule["actions"]) for rule in request["rules"]]

    def is_judged(self, job: TrainingJob) -> bool:
        jobs = self.account.client("sagemaker").list_processing_jobs()["ProcessingJobSummaries"]
        return processing_job_name(job) in {each["ProcessingJobName"] for each in jobs}

    def messages(self) -> list[str]:
        answer = self.account.client("sqs").receive_message(QueueUrl=self.inbox, MaxNumberOfMessages=10)
        return [json.loads(message["Body"])["Message"] for message in answer.get("Messages", ())]

    def verdicts(self, job: TrainingJob) -> dict[str, str]:
        arguments = ["aws", "verdicts", job.name, "--json", "--table", self.outputs["RunTableName"]]
        result = CliRunner().invoke(main, arguments)
        known = json.loads(result.stdout) if result.exit_code == 0 else {"rules": []}
        return {rule["rule"]: f"{rule['status']}: {rule['details']}" for rule in known["rules"]}


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with LocalAccount(stop_grace_seconds=3) as account:
        for name, value in account.environment().items():
            monkeypatch.setenv(name, value)
        yield Cloud(account)


def test_who_is_watched_and_by_what(cloud: Cloud) -> None:
    shared = plan_attachment(f"s3://{cloud.bucket}/tuning-7/@job", "exploding-tensor", actions=[])
    tuned = [cloud.train(attach_to_request({"TrainingJobName": f"tuning-7-{k}"}, shared)) for k in (1, 2)]
    variables = {"TRACKSIDE_RUN": f"s3://{cloud.bucket}/jobs/@job", "TRACKSIDE_RULES": "overfitt"}
    mistaken = cloud.train({"TrainingJobName": "mistaken", "Environment": variables})
    unwilling = cloud.train(
        {
            "TrainingJobName": "unwilling",
            "Environment": variables,
            "Tags": [{"Key": "trackside:watch", "Value": "no"}],
        }
    )
    plain = cloud.train({"TrainingJobName": "plain"})

    for job in tuned:
        eventually(cloud.account, lambda job=job: cloud.is_judged(job), f"{job.name} is judged")  # type: ignore[misc]  # the loop's own
        assert cloud.rules(f"tuning-7/{job.name}") == [("exploding-tensor", [])]
        assert cloud.tags(job)["trackside:run"] == f"s3://{cloud.bucket}/tuning-7/@job"

    eventually(cloud.account, lambda: cloud.is_judged(mistaken), "the mistaken one is judged")
    assert cloud.tags(mistaken) == {"trackside:run": f"s3://{cloud.bucket}/jobs/mistaken"}
    usual = cloud.rules("jobs/mistaken")
    assert usual
    assert len(usual) > 10
    assert not any("StopTraining" in actions for _, actions in usual)
    eventually(cloud.account, lambda: "choice-of-rules" in cloud.verdicts(mistaken), "its owner can see what is wrong")
    assert "Did you mean 'overfit'?" in cloud.verdicts(mistaken)["choice-of-rules"]
    eventually(cloud.account, lambda: any("mistaken" in message for message in cloud.messages()), "its owner is told")

    # Once tagged it is like any other: its end is recorded, and marked in its run.
    cloud.account.client("sagemaker").stop_training_job(TrainingJobName="mistaken")
    marker = "jobs/mistaken/debug-output/training_job_end.ts"
    objects = cloud.account.client("s3")
    eventually(
        cloud.account,
        lambda: objects.list_objects_v2(Bucket=cloud.bucket, Prefix=marker)["KeyCount"],
        "its end is marked",
    )

    for job in (unwilling, plain):
        assert not cloud.is_judged(job)
        assert "trackside:run" not in cloud.tags(job)
