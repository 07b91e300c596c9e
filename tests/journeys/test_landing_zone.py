"""Deployments beside one another and across accounts: two environments in one account, a hub and a spoke."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from moto.organizations.models import organizations_backends

from stacks.assembly import assembly
from tests.journeys.waiting import eventually
from tests.stacks.variants import (
    ACCOUNT,
    ALARM_TOPIC,
    HUB_OF_STAGING,
    NOTIFICATION_TOPIC,
    ORGANIZATION,
    RUN_BUCKET,
    SPOKE_ACCOUNT,
    SPOKE_OF_STAGING,
)
from trackside.contracts.action import Action
from trackside.contracts.event import DETAIL_TYPE, SOURCE, TrainingJob, evaluation_of
from trackside.contracts.verdict import Outcome, Severity, Verdict
from trackside_localaccount.deploy import Account, deploy
from trackside_localaccount.provision import create_role
from trackside_localaccount.server import LocalAccount, OtherAccount

ROOT = Path(__file__).parents[2]
EVALUATOR = str(ROOT / "rule_containers" / "evaluator" / "entrypoint.py")
TRAINS_UNTIL_STOPPED = "import signal; print('training', flush=True); signal.pause()"
pytestmark = pytest.mark.xdist_group("local-account")  # one account at a time in a process

Outputs = Mapping[str, str]


@pytest.fixture(scope="module")
def account() -> Iterator[LocalAccount]:
    """With what the environment `staging` finds there: a bucket, two topics, and the boundary of its roles."""
    with LocalAccount(stop_grace_seconds=3) as account:
        account.client("s3").create_bucket(Bucket=RUN_BUCKET)
        _make_boundary(account)
        _make_organization(account)
        for topic in (ALARM_TOPIC, NOTIFICATION_TOPIC):
            account.client("sns").create_topic(Name=topic.rpartition(":")[2])
        for repository in ("trackside-evaluator", "trackside-evaluator-staging"):
            account.register_image(repository, [sys.executable, EVALUATOR])
        yield account


@pytest.fixture(scope="module")
def production(account: LocalAccount) -> Outputs:
    return _deployed(assembly(), account)


@pytest.fixture(scope="module")
def staging(account: LocalAccount) -> Outputs:
    return _deployed(assembly(HUB_OF_STAGING), account)


@pytest.fixture(scope="module")
def spoke(account: LocalAccount, staging: Outputs) -> OtherAccount:
    other = account.other(SPOKE_ACCOUNT)
    _make_boundary(other)
    _deployed(assembly(SPOKE_OF_STAGING), other)
    return other


def test_nothing_is_called_alike_in_two_environments(production: Outputs, staging: Outputs) -> None:
    assert {name for name in set(production) & set(staging) if production[name] == staging[name]} == set()


@pytest.mark.parametrize("name", ["production", "staging"])
def test_a_job_reaches_the_environment_in_whose_bucket_its_run_lies_and_no_other(
    account: LocalAccount, production: Outputs, staging: Outputs, name: str
) -> None:
    own, other = (production, staging) if name == "production" else (staging, production)
    job = _train(account, f"job-of-{name}", f"s3://{own['RunBucketName']}/digits")
    eventually(account, lambda: _evaluators_of(account, job), "an evaluator starts")
    (one,) = _evaluators_of(account, job)
    assert one["Environment"]["TRACKSIDE_EVENT_BUS"] == own["EventBusName"]
    eventually(account, lambda: _is_known(account, own, job), "its own environment knows it")
    for queue in ("RecordVerdictQueueUrl", "StartEvaluationQueueUrl"):
        eventually(account, lambda url=other[queue]: not _waiting(account, url), "the other one has heard of it")  # type: ignore[misc]
    assert not _is_known(account, other, job)
    assert len(_evaluators_of(account, job)) == 1


def test_processing_jobs_run_where_the_deployment_says(account: LocalAccount, staging: Outputs) -> None:
    job = _train(account, "placed", f"s3://{RUN_BUCKET}/placed")
    eventually(account, lambda: _evaluators_of(account, job), "an evaluator starts")
    (one,) = _evaluators_of(account, job)
    assert one["NetworkConfig"] == {
        "EnableInterContainerTrafficEncryption": True,
        "VpcConfig": {
            "Subnets": HUB_OF_STAGING["trackside:vpc_subnets"].split(","),
            "SecurityGroupIds": ["sg-0123456789abcdef0"],
        },
    }
    cluster = one["ProcessingResources"]["ClusterConfig"]
    assert cluster["VolumeKmsKeyId"] == HUB_OF_STAGING["trackside:evaluator_volume_key_arn"]


def test_a_hub_judges_and_stops_the_job_of_a_spoke_and_not_its_own_of_the_same_kind(
    account: LocalAccount, staging: Outputs, spoke: OtherAccount
) -> None:
    run = f"s3://{RUN_BUCKET}/{SPOKE_ACCOUNT}/far"
    job, own = _train(spoke, "far", run), _train(account, "near", f"s3://{RUN_BUCKET}/near")
    assert job.arn.split(":")[4] == SPOKE_ACCOUNT
    eventually(account, lambda: _evaluators_of(account, job), "the hub judges it")
    _send_issue(account, staging, job, run)
    eventually(account, lambda: _status(spoke, job) == "Stopped", "the hub stops it, in the spoke")
    assert _status(account, own) == "InProgress"


def test_a_spoke_cannot_have_a_run_of_the_hub_or_another_spoke_judged_as_its_own(
    account: LocalAccount, staging: Outputs, spoke: OtherAccount
) -> None:
    job = _train(spoke, "sly", f"s3://{RUN_BUCKET}/near")
    eventually(account, lambda: _is_known(account, staging, job), "the hub has heard of it")
    eventually(account, lambda: not _waiting(account, staging["StartEvaluationQueueUrl"]), "its start is decided")
    assert _evaluators_of(account, job) == []


def _make_boundary(account: Account) -> None:
    """Make the policy that bounds every role of `staging`."""
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    account.client("iam").create_policy(PolicyName="boundary", PolicyDocument=json.dumps(document))


def _make_organization(account: Account) -> None:
    """Let the organization have the id in the settings: one synthesis serves all runs of this test."""
    account.client("organizations").create_organization(FeatureSet="ALL")
    made = organizations_backends[ACCOUNT]["aws"].org
    assert made is not None
    made.id = ORGANIZATION


def _deployed(folder: Path, account: Account) -> Outputs:
    return {name: value for outputs in deploy(folder, account).values() for name, value in outputs.items()}


def _train(account: Account, name: str, run: str) -> TrainingJob:
    role = create_role(account, f"training-{name}")
    arn = account.client("sagemaker").create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={
            "TrainingImage": "training",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": [sys.executable, "-c", TRAINS_UNTIL_STOPPED],
        },
        RoleArn=role,
        OutputDataConfig={"S3OutputPath": "s3://anywhere"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 86400},
        Tags=[{"Key": "trackside:run", "Value": run}],
    )["TrainingJobArn"]
    return TrainingJob(name, arn)


def _status(account: Account, job: TrainingJob) -> str:
    return str(account.client("sagemaker").describe_training_job(TrainingJobName=job.name)["TrainingJobStatus"])


def _evaluators_of(account: Account, job: TrainingJob) -> list[Mapping[str, Any]]:
    sagemaker = account.client("sagemaker")
    found = sagemaker.list_processing_jobs(NameContains=f"trackside-{job.name}")["ProcessingJobSummaries"]
    return [sagemaker.describe_processing_job(ProcessingJobName=each["ProcessingJobName"]) for each in found]


def _is_known(account: Account, outputs: Outputs, job: TrainingJob) -> bool:
    key = {"pk": {"S": job.arn}, "sk": {"S": "job"}}
    return "Item" in account.client("dynamodb").get_item(TableName=outputs["RunTableName"], Key=key)


def _waiting(account: Account, queue_url: str) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = account.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)["Attributes"]
    return sum(map(int, found.values()))


def _send_issue(account: Account, outputs: Outputs, job: TrainingJob, run: str) -> None:
    verdict = Verdict(
        run=job.name,
        rule_id="vanishing-gradient",
        configuration_name="vanishing-gradient",
        outcome=Outcome.ISSUE_FOUND,
        severity=Severity.CRITICAL,
        step=40,
        message="Gradients vanish.",
        detected_at=time.time(),
        actions=(Action.STOP_TRAINING,),
    )
    detail = json.dumps(evaluation_of(verdict, job=job, run_uri=run).to_detail())
    entry = {"Source": SOURCE, "DetailType": DETAIL_TYPE, "Detail": detail, "EventBusName": outputs["EventBusName"]}
    assert account.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0
