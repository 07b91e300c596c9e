"""A job that goes on in another's place, in the deployed chain: IAM decides, and both containers are processes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from stacks.assembly import assembly
from tests.journeys.test_whole_chain import Cloud
from trackside.contracts.action import Action
from trackside.contracts.event import DETAIL_TYPE, SOURCE, TrainingJob, evaluation_of
from trackside.contracts.rule_request import RuleRequest
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
        settings = {"trackside:resume_roles": LISTED, "trackside:watch_by_environment": "true"}
        yield Cloud(account, assembly(settings))


def role_of(cloud: Cloud, name: str) -> str:
    """A training role that may write runs, as docs/deploy.md asks for it."""
    rights = [
        {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:ListBucket"], "Resource": "*"},
        {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": "*"},
        {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"},
    ]
    return create_role(cloud.account, name, rights)


def train(cloud: Cloud, name: str, folder: Path, role: str, **variables: str) -> TrainingJob:
    """Start a job that asks for Trackside by its environment alone."""
    run = f"s3://{cloud.outputs['RunBucketName']}/{name}"
    arn = cloud.account.client("sagemaker").create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={"TrainingImage": "training", "TrainingInputMode": "File"},
        RoleArn=role,
        OutputDataConfig={"S3OutputPath": "s3://anywhere"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 86400},
        CheckpointConfig={"S3Uri": f"s3://anywhere/{name}", "LocalPath": str(folder)},
        Environment={"TRACKSIDE_RUN": run, "FOLDER": str(folder), **variables},
        Tags=[{"Key": "team", "Value": "vision"}],
    )["TrainingJobArn"]
    cloud.eventually(lambda: "training from nothing" in cloud.account.job_log(name), "the job runs")
    cloud.eventually(lambda: tags_of(cloud, arn).get("trackside:run") == run, "the job is tagged")
    return TrainingJob(name, arn)


def tags_of(cloud: Cloud, arn: str) -> dict[str, str]:
    found = cloud.account.client("sagemaker").list_tags(ResourceArn=arn)["Tags"]
    return {tag["Key"]: tag["Value"] for tag in found}


def rules_of(cloud: Cloud, run: str) -> list[tuple[str, tuple[Action, ...]]]:
    """Name and actions of each rule that judges the run."""
    body = cloud.account.client("s3").get_object(Bucket=cloud.outputs["RunBucketName"], Key=f"{run}/rule-request.json")[
        "Body"
    ]
    return [(rule.name, rule.actions) for rule in RuleRequest.from_json(body.read()).rules]


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
    chosen = {"TRACKSIDE_RULES": "loss-spike", "TRACKSIDE_ACTIONS": "ResumeTraining Notify"}
    job = train(cloud, "digits", tmp_path, role_of(cloud, "listed"), **chosen)
    for _ in range(3):
        send_spike(cloud, job, tmp_path)
    name = "digits-resumed-1"
    cloud.eventually(lambda: name in names_of(cloud, "digits"), "another job goes on")
    cloud.eventually(lambda: "training from" in cloud.account.job_log(name), "it trains")
    assert "training from checkpoint-20" in cloud.account.job_log(name)
    assert cloud.status(job) == "Stopped"
    sagemaker = cloud.account.client("sagemaker")
    tags = tags_of(cloud, f"{job.arn}-resumed-1")
    assert tags["team"] == "vision"
    assert tags["trackside:resumed-from"] == job.arn
    assert tags["trackside:run"] == f"s3://{cloud.outputs['RunBucketName']}/digits/resumed-1"
    (evaluator,) = cloud.eventually(
        lambda: sagemaker.list_processing_jobs(NameContains=name)["ProcessingJobSummaries"], "it is watched"
    )
    judging = sagemaker.describe_processing_job(ProcessingJobName=evaluator["ProcessingJobName"])
    assert judging["Environment"]["TRAINING_JOB_CONTINUES"] == job.arn, "its events name the job before"
    rules = [("loss-spike", (Action.RESUME_TRAINING, Action.NOTIFY))]
    assert rules_of(cloud, "digits/resumed-1") == rules_of(cloud, "digits") == rules
    (mail,) = cloud.eventually(
        lambda: [body for body in cloud.mail_about(job) if "goes on as" in body], "the owner is told"
    )
    assert name in mail
    assert names_of(cloud, "digits") == ["digits", name]
    for either in ("digits", name):
        story = cloud.eventually(partial(shown, cloud, either), "both are shown as one run")
        assert f"digits goes on as {name} from step 19" in story
        assert "after a stop at step 27: 8 steps are done again" in story
    assert f"continues digits, goes on as {name}" not in (listed := cloud.trackside("aws", "status"))
    assert "InProgress, continues digits" in listed
    assert f"Stopped, goes on as {name}" in listed
    assert (tmp_path / f".trackside-set-aside/{name}/checkpoint-30/model.pt").read_text() == "weights 30"
    assert [str(each) for each in cloud.account.hops if each.kind == "denied"] == []


def shown(cloud: Cloud, name: str) -> str:
    """What is known of a job, once it is known with the other one; else an empty text."""
    text = cloud.trackside("aws", "verdicts", name) if name in cloud.trackside("aws", "status") else ""
    return text if "one run" in text else ""


TAGS = [{"Key": key, "Value": "s3://x/y"} for key in ("trackside:run", "trackside:resumed-from")]


def test_the_function_tags_jobs_at_their_creation_only(cloud: Cloud, tmp_path: Path) -> None:
    """It may not change what asks for stops of a job that exists, nor create one that continues none."""
    job = train(cloud, "numbers-resumed-1", tmp_path, role_of(cloud, "person"))
    roles = cloud.account.client("iam").list_roles()["Roles"]
    (role,) = [one["Arn"] for one in roles if "StopTrainingFunctionRole" in one["RoleName"]]
    given = cloud.account.rights.environment_of(role, "session")
    sagemaker = boto3.client(
        "sagemaker",
        endpoint_url=cloud.account.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=given["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=given["AWS_SESSION_TOKEN"],
    )
    request = {
        "TrainingJobName": "letters-resumed-1",
        "AlgorithmSpecification": {"TrainingImage": "training", "TrainingInputMode": "File"},
        "RoleArn": LISTED,
        "OutputDataConfig": {"S3OutputPath": "s3://anywhere"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        "Environment": {"FOLDER": str(tmp_path)},
    }
    with pytest.raises(ClientError, match="not authorized to perform: sagemaker:AddTags"):
        sagemaker.add_tags(ResourceArn=job.arn, Tags=TAGS)
    for refused in ({"Tags": TAGS[:1]}, {"Tags": TAGS, "TrainingJobName": "letters"}):
        with pytest.raises(ClientError, match="not authorized to perform: sagemaker:CreateTrainingJob"):
            sagemaker.create_training_job(**{**request, **refused})
    sagemaker.create_training_job(**{**request, "Tags": TAGS})
    assert names_of(cloud, "letters") == ["letters-resumed-1"]


def test_a_job_with_another_role_is_only_stopped(cloud: Cloud, tmp_path: Path) -> None:
    job = train(cloud, "words", tmp_path, role_of(cloud, "unlisted"))
    send_spike(cloud, job, tmp_path)
    (mail,) = cloud.eventually(
        lambda: [body for body in cloud.mail_about(job) if "No job goes on" in body], "the owner is told"
    )
    assert "is not among resume_roles" in mail
    assert names_of(cloud, "words") == ["words"]
