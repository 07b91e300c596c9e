"""The whole chain as it happens: a stage (a local AWS account with the real stacks) and a training job's hops on it.

Each hop is checked at its far end: a tensor that can be read back from S3, an event that arrived in a queue, a message
in the owner's inbox, a data point in CloudWatch, a process that is gone. Nothing here trusts what was sent.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from trackside import open_trial
from trackside.contracts import run_layout
from trackside.contracts.action import Action
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, capture_environment
from trackside.contracts.event import DETAIL_TYPE, SOURCE, RuleEvaluation, read_rule_evaluations
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Verdict
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.testing.local_account.deploy import deploy
from trackside.testing.local_account.event_pattern import matches
from trackside.testing.local_account.server import LocalAccount

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # `stacks` is part of the checkout, not of the wheel

from stacks.assembly import assembly  # noqa: E402 - after the path that it is found by

__all__ = ["assembly"]
SCRIPT = ROOT / "examples" / "digits" / "train.py"
ENTRY_POINT = ROOT / "rule_containers" / "evaluator" / "entrypoint.py"
EPOCHS = 50
GRADIENTS_EVERY = 25  # steps; the rules' own intervals suit runs of hours, this one lasts seconds

ALL_ACTIONS = tuple(Action)


@dataclass(frozen=True)
class Hop:
    """One hop of the chain: what it is called, and what arrived; `None` while nothing has arrived yet."""

    name: str
    arrived: Callable[[], str | None]


@dataclass(frozen=True)
class Arrival:
    """A hop that happened: seconds since the training job was created (since the fault was planted)."""

    hop: str
    seconds: float
    detail: str


class HopMissing(Exception):
    """A hop did not happen in time; says which, and what was seen instead."""


@dataclass
class Stage:
    """A local AWS account with the stacks deployed, an owner's inbox behind the topic, and an ear on the event bus."""

    account: LocalAccount
    outputs: Mapping[str, Mapping[str, str]]
    clients: dict[str, Any] = field(default_factory=dict)
    inbox_url: str = ""
    bus_ear_url: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    def client(self, service: str) -> Any:
        """A boto3 client of the account, made once: looking must not slow down what is looked at."""
        if service not in self.clients:
            self.clients[service] = self.account.client(service)
        return self.clients[service]

    def output(self, name: str) -> str:
        """The value of a stack output, whichever stack has it."""
        return next(values[name] for values in self.outputs.values() if name in values)

    def collect(self) -> None:
        """Takes what has arrived in the inbox and on the bus since the last look."""
        for body in self._receive(self.inbox_url):
            self.messages.append(json.loads(body))
        for body in self._receive(self.bus_ear_url):
            self.events.append(json.loads(body))

    def _receive(self, url: str) -> Iterator[str]:
        sqs = self.client("sqs")
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            yield message["Body"]


def set_stage(account: LocalAccount, folder: Path) -> Stage:
    """Deploys the assembly into the account, and adds what an owner would: a subscription, and an ear to check by."""
    stage = Stage(account, deploy(folder, account))
    account.register_image("trackside-evaluator", [sys.executable, str(ENTRY_POINT)])
    sqs, sns, events = stage.client("sqs"), stage.client("sns"), stage.client("events")
    stage.inbox_url = sqs.create_queue(QueueName="owners-inbox")["QueueUrl"]
    sns.subscribe(TopicArn=stage.output("IssueTopicArn"), Protocol="sqs", Endpoint=_queue_arn(sqs, stage.inbox_url))
    stage.bus_ear_url = sqs.create_queue(QueueName="ear-on-the-bus")["QueueUrl"]
    bus = stage.output("EventBusName")
    events.put_rule(Name="ear", EventBusName=bus, EventPattern=json.dumps({"source": [SOURCE]}), State="ENABLED")
    target = {"Id": "ear", "Arn": _queue_arn(sqs, stage.bus_ear_url)}
    events.put_targets(Rule="ear", EventBusName=bus, Targets=[target])
    return stage


@dataclass
class TrainingRun:
    """One training job on the stage."""

    stage: Stage
    name: str
    run: RunLocation
    created_at: float
    stores: dict[str, Store] = field(default_factory=dict)

    @classmethod
    def create(cls, stage: Stage, fault: str, *, clock: Callable[[], float] = time.time) -> TrainingRun:
        """Puts the rule request into the run, then creates the training job: the script itself, unchanged."""
        name = f"digits-{'healthy' if fault == 'none' else fault}-{uuid.uuid4().hex[:6]}"
        run = RunLocation(f"s3://{stage.output('RunBucketName')}/{name}")
        rules = tuple(RuleConfiguration(rule, actions=ALL_ACTIONS) for rule in built_in_catalogue().usual)
        request = RuleRequest(rules)
        store = open_store(run.uri)
        store.put(run_layout.RULE_REQUEST_KEY, request.to_json().encode())
        needed = built_in_catalogue().capture_request(request)
        capture = needed.merged_with(CaptureRequest((CollectionRequest("gradients", Schedule(GRADIENTS_EVERY)),)))
        stage.client("sagemaker").create_training_job(
            TrainingJobName=name,
            AlgorithmSpecification={
                "TrainingImage": "123456789012.dkr.ecr.us-east-1.amazonaws.com/training:latest",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": [sys.executable, str(SCRIPT)],
                "ContainerArguments": ["--fault", fault, "--epochs", str(EPOCHS)],
            },
            RoleArn="arn:aws:iam::123456789012:role/training",
            OutputDataConfig={"S3OutputPath": f"s3://{stage.output('RunBucketName')}"},
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10},
            StoppingCondition={"MaxRuntimeInSeconds": 3600},
            Environment=dict(capture_environment(run.uri, capture)),
            Tags=[{"Key": "trackside:run", "Value": run.uri}],
        )
        return cls(stage, name, run, clock())

    # What can be seen of the job, from outside.

    def describe(self) -> Mapping[str, Any]:
        """DescribeTrainingJob."""
        description: Mapping[str, Any] = self.stage.client("sagemaker").describe_training_job(TrainingJobName=self.name)
        return description

    def store(self, part: str) -> Store:
        """The store of the run's `tensors` or `rule_output`."""
        if part not in self.stores:
            self.stores[part] = open_store(getattr(self.run, part))
        return self.stores[part]

    def epochs_done(self) -> int:
        """How many epoch lines the script has printed."""
        return sum(line.startswith("epoch") for line in self.stage.account.job_log(self.name).splitlines())

    def verdicts(self) -> tuple[Verdict, ...]:
        """What the rules said so far, read back from S3."""
        store = self.store("rule_output")
        if not store.exists(run_layout.VERDICTS_KEY):
            return ()
        lines = store.get(run_layout.VERDICTS_KEY).decode().splitlines()
        return tuple(Verdict.from_json(line) for line in lines)

    def issues(self) -> tuple[Verdict, ...]:
        """The verdicts that found something."""
        return tuple(v for v in self.verdicts() if v.outcome is Outcome.ISSUE_FOUND)

    def evaluations(self) -> tuple[RuleEvaluation, ...]:
        """Our events about this job that arrived from the bus."""
        ours = [event for event in self.stage.events if event["detail-type"] == DETAIL_TYPE]
        return tuple(e for event in ours for e in read_rule_evaluations(event) if e.job.name == self.name)

    def processing_job(self) -> Mapping[str, Any] | None:
        """The Processing job that judges this training job, if it was started."""
        sagemaker = self.stage.client("sagemaker")
        for summary in sagemaker.list_processing_jobs(NameContains=self.name[:40])["ProcessingJobSummaries"]:
            job: Mapping[str, Any] = sagemaker.describe_processing_job(ProcessingJobName=summary["ProcessingJobName"])
            if job["Environment"].get("TRAINING_JOB_NAME") == self.name:
                return job
        return None

    def last_step(self) -> int:
        """The last step that reached S3."""
        return open_trial(self.store("tensors")).steps()[-1]

    # The hops.

    def started(self) -> str | None:
        job = self.describe()
        pid = self.stage.account.job_pid(self.name)
        return f"process {pid}, {EPOCHS} epochs ahead" if pid and job["TrainingJobStatus"] == "InProgress" else None

    def tensors_in_s3(self) -> str | None:
        store = self.store("tensors")
        if next(iter(store.list(run_layout.INDEX_PREFIX)), None) is None:
            return None
        trial = open_trial(store)
        steps = trial.steps()
        names = trial.tensor_names(collection="gradients")
        if not steps or not names:
            return None
        return f"step {steps[0]}: {len(trial.names)} tensors, {len(names)} of them gradients"

    def container_started(self) -> str | None:
        job = self.processing_job()
        pid = self.stage.account.job_pid(job["ProcessingJobName"]) if job else None
        return f"a processing job, process {pid}" if pid else None

    def rule_fired(self) -> str | None:
        issues = self.issues()
        if not issues:
            return None
        lead = issues[0].lead
        seen = f": {lead.observed:.0e} {lead.relation} {lead.threshold:.0e}" if lead else ""
        return f"{issues[0].rule_id}, step {issues[0].step}{seen}"

    def event_on_bus(self) -> str | None:
        found = [e for e in self.evaluations() if e.found_issues]
        return f"IssuesFound from {found[0].configuration_name}" if found else None

    def pattern_matched(self) -> str | None:
        """The deployed rule's own pattern, as synthesized, matches the event that arrived."""
        found = [e for e in self.stage.events if e["detail"].get("TrainingJobName") == self.name]
        if not found:
            return None
        events = self.stage.client("events")
        bus = self.stage.output("EventBusName")
        for rule in events.list_rules(EventBusName=bus)["Rules"]:
            pattern = json.loads(rule.get("EventPattern", "{}"))
            wanted = pattern.get("detail", {}).get("Actions", [])
            if Action.STOP_TRAINING.value in wanted and any(matches(pattern, event) for event in found):
                return "the deployed rule's pattern, as synthesized"
        return None

    def process_gone(self) -> str | None:
        status = self.describe()["TrainingJobStatus"]
        done = self.epochs_done()
        if status != "Stopped" or self.stage.account.job_pid(self.name) is not None or done >= EPOCHS:
            return None
        return f"process gone after {done} of {EPOCHS} epochs"

    def owner_told(self) -> str | None:
        mine = [m for m in self.stage.messages if self.name in m.get("Message", "")]
        return f"“{mine[0]['Subject'].removesuffix(self.name).strip()} …”" if mine else None

    def metric_there(self) -> str | None:
        issues = self.metric_sum()
        return f"Trackside/IssuesFound = {issues:.0f}" if issues else None

    def metric_sum(self) -> float:
        """The sum of our CloudWatch metric about this job."""
        cloudwatch = self.stage.client("cloudwatch")
        metrics = cloudwatch.list_metrics(Namespace="Trackside", MetricName="IssuesFound")["Metrics"]
        now = datetime.now(timezone.utc)  # noqa: TID251 - the window of a query, not a stored time
        total = 0.0
        for metric in metrics:
            if {"Name": "TrainingJobName", "Value": self.name} not in metric["Dimensions"]:
                continue
            points = cloudwatch.get_metric_statistics(
                Namespace="Trackside",
                MetricName="IssuesFound",
                Dimensions=metric["Dimensions"],
                StartTime=now - timedelta(hours=1),
                EndTime=now + timedelta(hours=1),
                Period=3600,
                Statistics=["Sum"],
            )["Datapoints"]
            total += sum(point["Sum"] for point in points)
        return total

    def container_ended(self) -> str | None:
        job = self.processing_job()
        if not job or job["ProcessingJobStatus"] not in ("Completed", "Failed", "Stopped"):
            return None
        if job["ProcessingJobStatus"] != "Completed":
            log = self.stage.account.job_log(job["ProcessingJobName"])[-1500:]
            raise HopMissing(f"the rule container is {job['ProcessingJobStatus']}: {job.get('FailureReason')}\n{log}")
        return f"Completed: {str(job.get('ExitMessage', '')).partition(':')[0].partition('.')[0]}"

    def completed(self) -> str | None:
        status = self.describe()["TrainingJobStatus"]
        if status in ("Failed", "Stopped"):
            raise HopMissing(f"the healthy job ended as {status}:\n{self.stage.account.job_log(self.name)[-2000:]}")
        done = self.epochs_done()
        return f"all {done} epochs, job Completed" if status == "Completed" and done >= EPOCHS else None

    def all_clean(self) -> str | None:
        verdicts = self.verdicts()
        if not verdicts or self.container_ended() is None:
            return None
        clean = [v for v in verdicts if v.outcome is Outcome.CLEAN]
        # Not all that a rule may ask for is in this run: it has no evaluations, for one.
        bad = [v for v in verdicts if v.outcome is Outcome.ISSUE_FOUND or " crashed at step " in v.message]
        if bad or not clean:
            raise HopMissing("a rule did not call the healthy run clean: " + "; ".join(v.message for v in bad))
        return f"{len(clean)} of {len(verdicts)} rules: no issue found"

    def nothing_done(self) -> str | None:
        """No IssuesFound, no message, no metric, no stop: looked at after everything has ended."""
        if self.completed() is None or self.container_ended() is None:
            return None
        issues = [e for e in self.evaluations() if e.found_issues]
        told = self.owner_told()
        if issues or told or self.metric_sum():
            raise HopMissing(f"the healthy run was acted on: {len(issues)} events, message {told}, {self.metric_sum()}")
        return "no event, no message, no metric, no stop"


def faulty_hops(run: TrainingRun) -> tuple[Hop, ...]:
    """Fault -> finding -> event -> stop."""
    return (
        Hop("training job runs", run.started),
        Hop("tensors reach S3", run.tensors_in_s3),
        Hop("rule container starts", run.container_started),
        Hop("a rule finds the fault", run.rule_fired),
        Hop("event is on the bus", run.event_on_bus),
        Hop("EventBridge matches it", run.pattern_matched),
        Hop("owner has the message", run.owner_told),
        Hop("metric is in CloudWatch", run.metric_there),
        Hop("training is stopped", run.process_gone),
        Hop("rule container is done", run.container_ended),
    )


def healthy_hops(run: TrainingRun) -> tuple[Hop, ...]:
    """The twin without the fault runs to its end, and nothing happens."""
    return (
        Hop("training job runs", run.started),
        Hop("tensors reach S3", run.tensors_in_s3),
        Hop("rule container starts", run.container_started),
        Hop("training is complete", run.completed),
        Hop("rule container is done", run.container_ended),
        Hop("rules call it clean", run.all_clean),
        Hop("nobody was disturbed", run.nothing_done),
    )


def follow(
    run: TrainingRun,
    hops: tuple[Hop, ...],
    *,
    within_seconds: float,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    on_wait: Callable[[str], None] = lambda _: None,
) -> Iterator[Arrival]:
    """Yields each hop as it arrives, in the order they arrive in. Raises `HopMissing` when one does not."""
    missing = list(hops)
    while missing:
        run.stage.collect()
        arrived = [(hop, detail) for hop in missing if (detail := hop.arrived()) is not None]
        for hop, detail in arrived:
            missing.remove(hop)
            yield Arrival(hop.name, clock() - run.created_at, detail)
        if not missing:
            return
        if clock() - run.created_at > within_seconds:
            log = run.stage.account.job_log(run.name)[-1500:]
            raise HopMissing(f"not within {within_seconds:.0f} s: {', '.join(hop.name for hop in missing)}\n{log}")
        on_wait(missing[0].name)
        sleep(0.2)


def _queue_arn(sqs: Any, url: str) -> str:
    arn: str = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return arn
