"""A job that goes on in another's place, in the deployed chain: IAM decides, and both containers are processes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stacks.assembly import assembly
from tests.journeys.test_whole_chain import Cloud
from trackside.contracts.action import Action
from trackside.contracts.event import DETAIL_TYPE, SOURCE, TrainingJob, evaluation_of
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
from trackside_localaccount.provision import create_role
from trackside_localaccount.server import LocalAccount

pytestmark = pytest.mark.xdist_group("local-account")  # one account at a time in a process

LISTED = "arn:aws:iam::123456789012:role/listed"
SCRIPT = """
import os, pathlib, signal
from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run_layout import checkpoints_key
from trackside.records.checkpoints_file import encode_checkpoints
from trackside.storage.open_store import open_store

folder = pathlib.Path(os.environ["FOLDER"])
found = sorted(each.name for each in folder.glob("checkpoint-*"))
if not found:
    known = []
    for number in (10, 20, 30):
        (folder / f"checkpoint-{number}").mkdir(parents=True)
        path = folder / f"checkpoint-{number}" / "model.pt"
        path.write_text(f"weights {number}")
        known.append(Checkpoint(number - 1, str(path)))
    store = open_store(os.environ["TRACKSIDE_RUN"] + "/debug-output")
    store.put(checkpoints_key("worker_0"), encode_checkpoints(known))
print("training from", found[-1] if found else "nothing", flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    script = tmp_path_factory.mktemp("image") / "train.py"
    script.write_text(SCRIPT)
    with LocalAccount(stop_grace_seconds=3) as account:
        account.register_image("training", [sys.executable, str(script)])
        yield Cloud(account, assembly({"trackside:resume_roles": LISTED}))


def role_of(cloud: Cloud, name: str) -> str:
    """A training role that may write runs, as docs/deploy.md asks for it."""
    rights = [
        {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:ListBucket"], "Resource": "*"},
        {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": "*"},
        {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"},
    ]
    return create_role(cloud.account, name, rights)


def train(cloud: Cloud, name: str, folder: Path, role: str) -> TrainingJob:
    run = f"s3://{cloud.outputs['RunBucketName']}/{name}"
    arn = cloud.account.client("sagemaker").create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={"TrainingImage": "training", "TrainingInputMode": "File"},
        RoleArn=role,
        OutputDataConfig={"S3OutputPath": "s3://anywhere"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 86400},
        CheckpointConfig={"S3Uri": f"s3://anywhere/{name}", "LocalPath": str(folder)},
        Environment={"TRACKSIDE_RUN": run, "FOLDER": str(folder)},
        Tags=[{"Key": "trackside:run", "Value": run}, {"Key": "team", "Value": "vision"}],
    )["TrainingJobArn"]
    cloud.eventually(lambda: "training from nothing" in cloud.account.job_log(name), "the job runs")
    return TrainingJob(name, arn)


def send_spike(cloud: Cloud, job: TrainingJob, folder: Path) -> None:
    verdict = Verdict(
        run=job.name,
        rule_id="loss-spike",
        configuration_name="loss-spike",
        outcome=Outcome.ISSUE_FOUND,
        severity=Severity.CRITICAL,
        step=27,
        message="The loss rose.",
        detected_at=time.time(),
        findings=(Finding("CrossEntropyLoss_output_0", 27, 24, "loss", 90.0, ">", 2.0),),
        affected=1,
        actions=(Action.RESUME_TRAINING, Action.NOTIFY),
        checkpoint=str(folder / "checkpoint-20" / "model.pt"),
        checkpoint_step=19,
    )
    detail = evaluation_of(verdict, job=job, run_uri=f"s3://{cloud.outputs['RunBucketName']}/{job.name}").to_detail()
    entry = {
        "Source": SOURCE,
        "DetailType": DETAIL_TYPE,
        "Detail": json.dumps(detail),
        "EventBusName": cloud.outputs["EventBusName"],
    }
    assert cloud.account.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0


def names_of(cloud: Cloud, words: str) -> list[str]:
    found = cloud.account.client("sagemaker").list_training_jobs(NameContains=words)["TrainingJobSummaries"]
    return sorted(each["TrainingJobName"] for each in found)


def test_another_job_goes_on_from_the_good_checkpoint_and_is_watched(cloud: Cloud, tmp_path: Path) -> None:
    job = train(cloud, "digits", tmp_path, role_of(cloud, "listed"))
    for _ in range(3):
        send_spike(cloud, job, tmp_path)
    name = "digits-resumed-1"
    cloud.eventually(lambda: name in names_of(cloud, "digits"), "another job goes on")
    cloud.eventually(lambda: "training from" in cloud.account.job_log(name), "it trains")
    assert "training from checkpoint-20" in cloud.account.job_log(name)
    assert cloud.status(job) == "Stopped"
    sagemaker = cloud.account.client("sagemaker")
    description = sagemaker.describe_training_job(TrainingJobName=name)
    tags = {tag["Key"]: tag["Value"] for tag in sagemaker.list_tags(ResourceArn=description["TrainingJobArn"])["Tags"]}
    assert tags["team"] == "vision"
    assert tags["trackside:resumed-from"] == job.arn
    assert tags["trackside:run"] == f"s3://{cloud.outputs['RunBucketName']}/digits/resumed-1"
    cloud.eventually(
        lambda: sagemaker.list_processing_jobs(NameContains=name)["ProcessingJobSummaries"], "it is watched"
    )
    (mail,) = cloud.eventually(
        lambda: [body for body in cloud.mail_about(job) if "goes on as" in body], "the owner is told"
    )
    assert name in mail
    assert names_of(cloud, "digits") == ["digits", name]
    assert (tmp_path / f".trackside-set-aside/{name}/checkpoint-30/model.pt").read_text() == "weights 30"
    assert [str(each) for each in cloud.account.hops if each.kind == "denied"] == []


def test_a_job_with_another_role_is_only_stopped(cloud: Cloud, tmp_path: Path) -> None:
    job = train(cloud, "letters", tmp_path, role_of(cloud, "unlisted"))
    send_spike(cloud, job, tmp_path)
    (mail,) = cloud.eventually(
        lambda: [body for body in cloud.mail_about(job) if "No job goes on" in body], "the owner is told"
    )
    assert "is not among resume_roles" in mail
    assert names_of(cloud, "letters") == ["letters"]
