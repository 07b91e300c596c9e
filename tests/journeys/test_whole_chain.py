"""The deployed chain under faults: a handler that keeps crashing, events twice and out of order, jobs killed outright.

Everything is real but the account: the synthesized stacks, the functions' own code in their own processes, training and
processing jobs as processes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.journeys.waiting import eventually
from tests.stacks.variants import WATCHING
from trackside.cli import main
from trackside.cloud.run_table import RunTable
from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.event import DETAIL_TYPE, SOURCE, TrainingJob, evaluation_of
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import write_collections, write_tensors
from trackside_localaccount.deploy import deploy
from trackside_localaccount.event_delivery import Chaos
from trackside_localaccount.provision import create_inbox, create_role
from trackside_localaccount.server import LocalAccount
from trackside_localaccount.start_time import MOST_STARTS, seconds_to_start

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("local-account")  # one account at a time in a process

STOPPABLE = {"trackside:actions": "StopTraining"}  # else the deployment has no right to stop a job
TRAINS_UNTIL_STOPPED = "import signal; print('training', flush=True); signal.pause()"


class Cloud:
    """The account with the stacks in it."""

    def __init__(self, account: LocalAccount, folder: Path) -> None:
        self.account = account
        stacks = deploy(folder, account)
        self.outputs = {name: value for outputs in stacks.values() for name, value in outputs.items()}
        account.register_image(
            "trackside-evaluator", [sys.executable, str(ROOT / "rule_containers" / "evaluator" / "entrypoint.py")]
        )
        self.sqs = account.client("sqs")
        self.inbox = create_inbox(account, "inbox", self.outputs["IssueTopicArn"])
        self.role = create_role(account, "training")
        self.mail: list[str] = []

    def train(self, name: str, code: str = TRAINS_UNTIL_STOPPED, *, tags: dict[str, str] | None = None) -> TrainingJob:
        sagemaker = self.account.client("sagemaker")
        arn = sagemaker.create_training_job(
            TrainingJobName=name,
            AlgorithmSpecification={
                "TrainingImage": "training",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": [sys.executable, "-c", code],
            },
            RoleArn=self.role,
            OutputDataConfig={"S3OutputPath": "s3://anywhere"},
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 86400},
            Tags=[{"Key": key, "Value": value} for key, value in (tags or {}).items()],
        )["TrainingJobArn"]
        self.eventually(lambda: "training" in self.account.job_log(name), "the job runs")
        return TrainingJob(name, arn)

    def eventually(self, is_so: Callable[[], Any], what: str, *, starts: float = MOST_STARTS) -> Any:
        """Waits for the far end; the answer is whatever became true."""
        return eventually(self.account, is_so, what, starts=starts)

    def status(self, job: TrainingJob) -> str:
        description = self.account.client("sagemaker").describe_training_job(TrainingJobName=job.name)
        return str(description["TrainingJobStatus"])

    def send_issue(self, job: TrainingJob, *actions: Action, rule: str = "vanishing-gradient") -> None:
        verdict = Verdict(
            run=job.name,
            rule_id=rule,
            configuration_name=rule,
            outcome=Outcome.ISSUE_FOUND,
            severity=Severity.CRITICAL,
            step=40,
            message="Gradients vanish.",
            detected_at=time.time(),
            findings=(Finding("gradient/Net_0.weight", 40, 0, "mean |gradient|", 1e-12, "<", 1e-7),),
            affected=1,
            actions=actions,
        )
        detail = evaluation_of(verdict, job=job, run_uri=f"s3://{self.outputs['RunBucketName']}/{job.name}").to_detail()
        entry = {
            "Source": SOURCE,
            "DetailType": DETAIL_TYPE,
            "Detail": json.dumps(detail),
            "EventBusName": self.outputs["EventBusName"],
        }
        assert self.account.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0

    def trackside(self, *words: str) -> str:
        """What the command prints, with the account's credentials."""
        result = CliRunner().invoke(main, words, env=self.account.environment(), catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def messages(self, queue_url: str) -> list[str]:
        bodies = []
        while received := self.sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages", []):
            for message in received:
                self.sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
                bodies.append(message["Body"])
        return bodies

    def received(self, queue_url: str, words: str) -> bool:
        """True once one of the messages there holds the words; what else alarms tell is of no interest."""
        return any(words in body for body in self.messages(queue_url))

    def mail_about(self, job: TrainingJob) -> list[str]:
        self.mail += self.messages(self.inbox)
        return [body for body in self.mail if job.name in body]


@pytest.fixture(scope="module")
def folder() -> Path:
    from stacks.assembly import assembly

    return assembly()


@pytest.fixture
def cloud(folder: Path) -> Iterator[Cloud]:
    with LocalAccount(stop_grace_seconds=3) as account:
        yield Cloud(account, folder)


def test_a_handler_that_keeps_crashing_loses_nothing_and_raises_an_alarm(cloud: Cloud) -> None:
    """The topic is gone, so notify_owner raises on each attempt; the other actions go on."""
    alarm_inbox = create_inbox(cloud.account, "alarm-inbox", cloud.outputs["AlarmTopicArn"])
    incidents = create_inbox(cloud.account, "incidents", cloud.outputs["IssueAlarmTopicArn"])
    cloud.account.client("sns").delete_topic(TopicArn=cloud.outputs["IssueTopicArn"])
    job = cloud.train("unlucky", tags=STOPPABLE)
    cloud.send_issue(job, Action.STOP_TRAINING, *DEFAULT_ACTIONS)

    assert cloud.eventually(lambda: cloud.status(job) == "Stopped", "the job is stopped all the same")
    assert cloud.eventually(
        lambda: cloud.received(alarm_inbox, "notify_owner gave up"), "the owner is told of the dead letter"
    )
    assert cloud.eventually(
        lambda: cloud.received(incidents, "IssuesFound"), "the alarm on issues tells who subscribed"
    )
    (dead,) = cloud.eventually(lambda: cloud.messages(cloud.outputs["NotifyDeadLettersUrl"]), "the message is kept")
    event = json.loads(dead)
    assert event["detail"]["TrainingJobName"] == job.name
    assert event["detail"]["Evidence"]["Statistics"] is not None
    attempts = cloud.account.function_log(_function_of(cloud, "notify")).count("The reaction failed")
    assert attempts == 5
    assert cloud.messages(cloud.outputs["StopTrainingDeadLettersUrl"]) == []


def test_duplicates_and_reordering_cause_one_action_of_each_kind(folder: Path) -> None:
    # AWS waits 180 s before it tries again. A delivery that meets its twin at work must not use up its five attempts
    # within a second, so the pause is longer here than cold starts on a busy machine take.
    pause_seconds = max(5.0, 20 * seconds_to_start())
    with LocalAccount(stop_grace_seconds=3, chaos=Chaos(seed=7), retry_seconds=pause_seconds) as account:
        cloud = Cloud(account, folder)
        job = cloud.train("twice", tags=STOPPABLE)
        for _ in range(3):
            cloud.send_issue(job, Action.STOP_TRAINING, *DEFAULT_ACTIONS)
        assert cloud.eventually(lambda: cloud.status(job) == "Stopped", "the job is stopped")
        assert cloud.eventually(lambda: cloud.mail_about(job), "the owner is told")
        queues = [cloud.outputs[f"{each.value}QueueUrl"] for each in Action if not each.unit.carried_out_by]
        cloud.eventually(lambda: all(_waiting(cloud, url) == 0 for url in queues), "all deliveries are handled")
        assert len(cloud.mail_about(job)) == 1
        assert _metric_sum(cloud, job) == 1
        assert all(
            cloud.messages(cloud.outputs[f"{action.value}DeadLettersUrl"]) == []
            for action in Action
            if not action.unit.carried_out_by
        )


@pytest.mark.parametrize(
    ("name", "request_text"),
    [
        pytest.param("crashed", None, id="the evaluator is killed twice"),
        pytest.param("misasked", '{"rules": [{"rule": "vanishing-gradeint"}]}', id="the rule request is wrong"),
    ],
)
def test_the_owner_is_told_that_a_job_is_no_longer_watched(cloud: Cloud, name: str, request_text: str | None) -> None:
    """The training goes on either way; without the alarm nobody would know that it goes on unwatched."""
    alarm_inbox = create_inbox(cloud.account, "alarm-inbox", cloud.outputs["AlarmTopicArn"])
    run = RunLocation(f"s3://{cloud.outputs['RunBucketName']}/{name}")
    if request_text:
        cloud.account.client("s3").put_object(
            Bucket=cloud.outputs["RunBucketName"], Key=f"{name}/rule-request.json", Body=request_text.encode()
        )
    job = cloud.train(name, tags=tag_of(run))
    sagemaker = cloud.account.client("sagemaker")
    for attempt in (1, 2) if not request_text else ():  # in the place of the first another goes on
        rows = cloud.eventually(
            lambda count=attempt: (  # type: ignore[misc]
                len(rows := sagemaker.list_processing_jobs(NameContains=name)["ProcessingJobSummaries"]) == count
                and rows
            ),
            "an evaluator was started",
        )
        newest = max(rows, key=lambda row: row["CreationTime"])["ProcessingJobName"]
        pid = cloud.eventually(partial(cloud.account.job_pid, newest), "the evaluator runs")
        os.kill(pid, signal.SIGKILL)
    assert cloud.eventually(lambda: cloud.received(alarm_inbox, "no longer watched"), "the owner is told")
    (kept,) = cloud.eventually(lambda: cloud.messages(cloud.outputs["FailedEvaluationsUrl"]), "the event is kept")
    detail = json.loads(kept)["detail"]
    assert detail["Environment"]["TRAINING_JOB_NAME"] == job.name
    assert "Did you mean" in detail["ExitMessage"] if request_text else detail["FailureReason"]
    assert cloud.status(job) == "InProgress"


RULE_FILE = """
from smdebug.rules import Rule


class LargeLoss(Rule):
    def __init__(self, base_trial, limit):
        super().__init__(base_trial)
        self.limit = float(limit)

    def invoke_at_step(self, step):
        return self.base_trial.tensor("CrossEntropyLoss_output_0").value(step) > self.limit
"""


def test_a_rule_from_a_file_stops_the_job_from_a_job_of_its_own(tmp_path: Path) -> None:
    """Its code runs with a role that can say nothing; what it found comes to the bus by the end of its own job."""
    from stacks.assembly import assembly

    with LocalAccount(stop_grace_seconds=3) as account:
        cloud = Cloud(account, assembly(WATCHING))
        entry_point = ROOT / "rule_containers" / "custom_rule" / "entrypoint.py"
        account.register_image("trackside-custom-rule", [sys.executable, str(entry_point)])
        s3, bucket = account.client("s3"), cloud.outputs["RunBucketName"]
        s3.create_bucket(Bucket="rules-bucket")
        s3.put_object(Bucket="rules-bucket", Key="approved/mine.py", Body=RULE_FILE.encode())
        asked = [
            {
                "rule": "LargeLoss",
                "name": name,
                "source": f"s3://{place}/mine.py",
                "parameters": {"limit": "2"},
                "actions": ["StopTraining", "Notify"],
            }
            for name, place in (("large", "rules-bucket/approved"), ("elsewhere", f"{bucket}/custom"))
        ]
        s3.put_object(Bucket=bucket, Key="custom/rule-request.json", Body=json.dumps({"rules": asked}).encode())
        store = LocalStore(tmp_path / "debug-output")
        write_collections(store)
        for step, loss in enumerate((1.0, 3.0)):
            write_tensors(store, step, {"CrossEntropyLoss_output_0": loss})
        for file in filter(Path.is_file, tmp_path.rglob("*")):
            s3.put_object(Bucket=bucket, Key=f"custom/{file.relative_to(tmp_path).as_posix()}", Body=file.read_bytes())

        job = cloud.train("custom", tags=tag_of(RunLocation(f"s3://{bucket}/custom")))
        assert cloud.eventually(lambda: cloud.status(job) == "Stopped", "the job is stopped")
        (mail,) = cloud.eventually(lambda: cloud.mail_about(job), "the owner is told")
        assert "large" in mail
        assert "custom/rule-output/large/verdicts.jsonl" in keys_of(s3, bucket)
        started = account.client("sagemaker").list_processing_jobs(NameContains="custom")["ProcessingJobSummaries"]
        assert len(started) == 2, "the evaluator, and one rule: the other file lies where anybody may put one"


def test_a_person_sees_what_is_known_forbids_a_stop_and_learns_of_an_end_that_nobody_told(cloud: Cloud) -> None:
    """The veto window is set here as the stack would. The message that waits is not waited for: a duplicate comes."""
    run = RunLocation(f"s3://{cloud.outputs['RunBucketName']}/known")
    functions = cloud.account.client("lambda")
    name = _function_of(cloud, "stoptraining")
    variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    variables["TRACKSIDE_VETO_MINUTES"] = "15"
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
    job = cloud.train("known", tags=tag_of(run))

    table = RunTable(cloud.outputs["RunTableName"], client=cloud.account.client)

    def decided() -> set[str]:
        return {decision.outcome.value for decision in table.known(job.arn).decisions}

    def state() -> str:
        known = table.known(job.arn).job
        return known.status if known else ""

    cloud.send_issue(job, Action.STOP_TRAINING)
    assert "trackside aws veto known" in cloud.eventually(lambda: cloud.mail_about(job), "the stop is announced")[0]
    cloud.eventually(lambda: table.rules(job.arn), "the verdict is recorded")
    assert "vanishing-gradient  IssuesFound  step 0" in cloud.trackside("aws", "verdicts", job.name)
    cloud.trackside("aws", "veto", job.name, "--by", "ada")
    cloud.send_issue(job, Action.STOP_TRAINING)
    cloud.eventually(lambda: "Vetoed" in decided(), "the veto is heeded")
    assert decided() == {"Announced", "Vetoed"}
    assert cloud.status(job) == "InProgress"

    events = cloud.account.client("events")
    for rule in events.list_rules()["Rules"]:
        if "TrainingEnded" in rule["Name"] or "TrainingChanged" in rule["Name"]:
            events.disable_rule(Name=rule["Name"])
    cloud.account.client("sagemaker").stop_training_job(TrainingJobName=job.name)
    cloud.eventually(lambda: cloud.status(job) == "Stopped", "the job has ended")
    assert state() == "InProgress", "no event told of it"
    cloud.sqs.send_message(QueueUrl=cloud.outputs["ReconcileQueueUrl"], MessageBody='{"id": "a tick of the schedule"}')
    cloud.eventually(lambda: state() == "Stopped", "it is found and recorded")
    marker = f"{job.name}/debug-output/training_job_end.ts"
    s3 = cloud.account.client("s3")
    cloud.eventually(lambda: marker in keys_of(s3, cloud.outputs["RunBucketName"]), "the run is finished")
    assert "known" in cloud.trackside("aws", "status")


def tag_of(run: RunLocation) -> dict[str, str]:
    return {"trackside:run": run.uri}


def keys_of(s3: Any, bucket: str) -> set[str]:
    return {item["Key"] for item in s3.list_objects_v2(Bucket=bucket).get("Contents", [])}


def _waiting(cloud: Cloud, queue_url: str) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    attributes = cloud.sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)["Attributes"]
    return sum(int(attributes[name]) for name in names)


def _metric_sum(cloud: Cloud, job: TrainingJob) -> float:
    cloudwatch = cloud.account.client("cloudwatch")
    total = 0.0
    for metric in cloudwatch.list_metrics(Namespace="Trackside")["Metrics"]:
        if {"Name": "TrainingJobName", "Value": job.name} in metric["Dimensions"]:
            now = time.time()
            points = cloudwatch.get_metric_statistics(
                Namespace="Trackside",
                MetricName=metric["MetricName"],
                Dimensions=metric["Dimensions"],
                StartTime=now - 3600,
                EndTime=now + 3600,
                Period=7200,
                Statistics=["Sum"],
            )["Datapoints"]
            total += sum(point["Sum"] for point in points)
    return total


def _function_of(cloud: Cloud, word: str) -> str:
    names = [f["FunctionName"] for f in cloud.account.client("lambda").list_functions()["Functions"]]
    (name,) = [name for name in names if word in name.lower()]
    return str(name)
