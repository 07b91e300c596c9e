"""The whole chain as it happens: a stage (a local AWS account with the real stacks) and the effects of a training job.

Each effect is checked at its end: a tensor that can be read back from S3, an event that arrived in a queue, a message
in the owner's inbox, a data point in CloudWatch, a process that is gone. Nothing here trusts what was sent.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from failure_report import what_was_seen

from trackside import open_trial
from trackside.contracts import run_layout
from trackside.contracts.action import Action
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, capture_environment
from trackside.contracts.event import DETAIL_TYPE, SOURCE, RuleEvaluation, read_rule_evaluations
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Verdict
from trackside.storage.s3 import S3Store
from trackside.storage.store import Store
from trackside_localaccount.deploy import deploy
from trackside_localaccount.event_pattern import matches
from trackside_localaccount.journal import JournalEntry
from trackside_localaccount.provision import create_inbox, create_role
from trackside_localaccount.server import ACCOUNT_ID, REGION, LocalAccount
from trackside_localaccount.start_time import limit_seconds, seconds_to_start

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # `stacks` is part of the checkout, not of the wheel

from stacks.assembly import assembly  # noqa: E402 - after the path that it is found by

__all__ = ["assembly"]
SCRIPT = ROOT / "examples" / "digits" / "train.py"
ENTRY_POINT = ROOT / "rule_containers" / "evaluator" / "entrypoint.py"
IMAGE = "training"
HEALTHY_EPOCHS = 50
INBOX, BUS_EAR = "owners-inbox", "ear-on-the-bus"
GRADIENTS_EVERY = 25  # steps; the rules' own intervals suit runs of hours, this one lasts seconds

ALL_ACTIONS = tuple(Action)


Condition = Callable[[JournalEntry], bool]


@dataclass(frozen=True)
class Effect:
    """One effect of the chain.

    name: as it is printed.
    arrived: looks at the far end and returns what is there; `None` while nothing is.
        Errors: `CannotArrive` once nothing can come any more.
    journal_condition: True for the entries of the account's journal after which it is worth looking.
    most_starts: the time limit, counted from the last arrival: so many starts of Python with torch.
    """

    name: str
    arrived: Callable[[], str | None]
    journal_condition: Condition
    most_starts: float


@dataclass(frozen=True)
class Arrival:
    """An effect that arrived: seconds since the training job was created (since the fault was planted)."""

    effect: str
    seconds: float
    detail: str


class CannotArrive(Exception):
    """Something happened after which the effect cannot come any more; the message names it."""


class EffectMissing(Exception):
    """An effect did not arrive.

    effect: its name. why: the limit that is over, or the hindrance. seen: the facts found instead, with the
    end of every log that matters.
    """

    def __init__(self, effect: str, why: str, seen: str) -> None:
        self.effect, self.why, self.seen = effect, why, seen
        super().__init__(f"{effect}: {why}\n\n{seen}")


@dataclass
class Stage:
    """A local AWS account with the stacks deployed, an owner's inbox behind the topic, and an ear on the event bus."""

    account: LocalAccount
    outputs: Mapping[str, Mapping[str, str]]
    clients: dict[str, Any] = field(default_factory=dict)
    start_seconds: float = 0.0  # of Python with torch, here and now
    inbox_url: str = ""
    bus_ear_url: str = ""
    role: str = ""  # of training jobs
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

    def store(self, uri: str) -> Store:
        """The store at `s3://bucket/prefix` of the account."""
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        return S3Store(bucket, prefix, self.client("s3"))

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
    """Deploys the assembly into the account, and adds what an owner would: a subscription, and an ear to check by.

    Beside that it measures how long Python with torch takes to start here.
    """
    with ThreadPoolExecutor(1) as beside:
        start_seconds = beside.submit(seconds_to_start, "torch")
        stage = Stage(account, deploy(folder, account))
        stage.start_seconds = start_seconds.result()
    account.register_image("trackside-evaluator", [sys.executable, str(ENTRY_POINT)])
    sqs, events = stage.client("sqs"), stage.client("events")
    stage.inbox_url = create_inbox(account, INBOX, stage.output("IssueTopicArn"))
    stage.bus_ear_url = create_inbox(account, BUS_EAR)
    stage.role = create_role(
        account, "training", _rights_of_training(stage.output("RunBucketName"), stage.output("KeyArn"))
    )
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
    fault: str
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
        stage.account.watch_objects(f"{run.uri.removeprefix('s3://')}/")
        stage.store(run.uri).put(run_layout.RULE_REQUEST_KEY, request.to_json().encode())
        needed = built_in_catalogue().capture_request(request)
        capture = needed.merged_with(CaptureRequest((CollectionRequest("gradients", Schedule(GRADIENTS_EVERY)),)))
        stage.client("sagemaker").create_training_job(
            TrainingJobName=name,
            AlgorithmSpecification={
                "TrainingImage": f"{ACCOUNT_ID}.dkr.ecr.{REGION}.amazonaws.com/{IMAGE}:latest",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": [sys.executable, str(SCRIPT)],
                "ContainerArguments": arguments_of(fault),
            },
            RoleArn=stage.role,
            OutputDataConfig={"S3OutputPath": f"s3://{stage.output('RunBucketName')}"},
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10},
            StoppingCondition={"MaxRuntimeInSeconds": 3600},
            Environment=dict(capture_environment(run.uri, capture)),
            Tags=[{"Key": "trackside:run", "Value": run.uri}],
        )
        return cls(stage, name, fault, run, clock())

    # What can be seen of the job, from outside.

    def describe(self) -> Mapping[str, Any]:
        """DescribeTrainingJob."""
        description: Mapping[str, Any] = self.stage.client("sagemaker").describe_training_job(TrainingJobName=self.name)
        return description

    def store(self, part: str) -> Store:
        """The store of the run's `tensors` or `rule_output`."""
        if part not in self.stores:
            self.stores[part] = self.stage.store(getattr(self.run, part))
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

    # The effects.

    def _fail_if_training_ended(self, job: Mapping[str, Any], *statuses: str) -> None:
        if (status := job["TrainingJobStatus"]) in statuses:
            raise CannotArrive(f"the training job ended as {status}: {job.get('FailureReason', 'by itself')}")

    def _fail_if_judge_failed(self) -> None:
        job = self.processing_job()
        if job and (status := job["ProcessingJobStatus"]) in ("Failed", "Stopped"):
            raise CannotArrive(f"the rule container is {status}: {job.get('FailureReason', 'by itself')}")

    def started(self) -> str | None:
        job = self.describe()
        pid = self.stage.account.job_pid(self.name)
        self._fail_if_training_ended(job, "Failed")
        return f"process {pid}" if pid and job["TrainingJobStatus"] == "InProgress" else None

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
            self._fail_if_judge_failed()
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
        job = self.describe()
        self._fail_if_training_ended(job, "Completed", "Failed")
        if job["TrainingJobStatus"] != "Stopped" or self.stage.account.job_pid(self.name) is not None:
            return None
        return f"process gone after {self.epochs_done()} epochs"

    def owner_notified(self) -> str | None:
        mine = [m for m in self.stage.messages if self.name in m.get("Message", "")]
        return f"“{mine[0]['Subject'].removesuffix(self.name).strip()} …”" if mine else None

    def metric_published(self) -> str | None:
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
        self._fail_if_judge_failed()
        return f"Completed: {str(job.get('ExitMessage', '')).partition(':')[0].partition('.')[0]}"

    def completed(self) -> str | None:
        job = self.describe()
        self._fail_if_training_ended(job, "Failed", "Stopped")
        return f"all {self.epochs_done()} epochs" if job["TrainingJobStatus"] == "Completed" else None

    def all_clean(self) -> str | None:
        if self.container_ended() is None:
            return None
        verdicts = self.verdicts()
        clean = [v for v in verdicts if v.outcome is Outcome.CLEAN]
        # Not all that a rule may ask for is in this run: it has no evaluations, for one.
        bad = [v for v in verdicts if v.outcome is Outcome.ISSUE_FOUND or " crashed at step " in v.message]
        if bad or not clean:
            raise CannotArrive("a rule did not call the healthy run clean: " + "; ".join(v.message for v in bad))
        return f"{len(clean)} of {len(verdicts)} rules: no issue found"

    def nothing_done(self) -> str | None:
        """No IssuesFound, no message, no metric, no stop: looked at after everything has ended."""
        if self.completed() is None or self.container_ended() is None:
            return None
        issues = [e for e in self.evaluations() if e.found_issues]
        subject = self.owner_notified()
        if issues or subject or self.metric_sum():
            raise CannotArrive(f"the healthy run was acted on: {len(issues)} events, message {subject}")
        return "no event, no message, no metric, no stop"

    # What the account tells of the job as it happens.

    def stored(self, below: str = "") -> Condition:
        """An object was stored in the run."""
        place = f"{self.run.uri.split('/', 3)[3]}/{below}"
        return lambda entry: entry.kind == "object" and entry.names["key"].startswith(place)

    def training_changed(self, entry: JournalEntry) -> bool:
        """The training job has a process, or another status."""
        return entry.kind in ("job-process", "job-state") and entry.names["job"] == self.name

    def judge_changed(self, entry: JournalEntry) -> bool:
        """A processing job has a process, or another status."""
        return entry.kind in ("job-process", "job-state") and entry.names["kind"] == "Processing"

    def judged(self, entry: JournalEntry) -> bool:
        """The rules have written something, or the one who writes has ended."""
        return self.stored("rule-output/")(entry) or self.judge_changed(entry)

    def ended(self, entry: JournalEntry) -> bool:
        """The training job or a processing job has another status."""
        return self.training_changed(entry) or self.judge_changed(entry)

    def message_came(self, entry: JournalEntry) -> bool:
        """The owner's inbox, or the ear on the bus, has a message."""
        return entry.kind == "message" and entry.names["queue"] in (INBOX, BUS_EAR)


def arguments_of(fault: str) -> list[str]:
    """The arguments of the training script: with a fault it trains until it is stopped, however long that takes."""
    return ["--fault", fault, *(["--epochs", str(HEALTHY_EPOCHS)] if fault == "none" else ["--until-stopped"])]


def captured_effects(run: TrainingRun) -> tuple[Effect, ...]:
    """Start -> capture, the same for both jobs."""
    return (
        Effect("training job runs", run.started, run.training_changed, 20),
        Effect("rule container starts", run.container_started, run.judge_changed, 20),
        Effect("tensors reach S3", run.tensors_in_s3, run.stored(), 20),
    )


def faulty_effects(run: TrainingRun) -> tuple[Effect, ...]:
    """Fault -> finding -> event -> stop."""
    return (
        *captured_effects(run),
        Effect("a rule finds the fault", run.rule_fired, run.judged, 40),
        Effect("event is on the bus", run.event_on_bus, run.message_came, 20),
        Effect("EventBridge matches it", run.pattern_matched, run.message_came, 20),
        Effect("owner has the message", run.owner_notified, run.message_came, 30),
        Effect("metric is in CloudWatch", run.metric_published, lambda entry: entry.kind == "metric", 20),
        Effect("training is stopped", run.process_gone, run.training_changed, 40),
        Effect("rule container is done", run.container_ended, run.judge_changed, 40),
    )


def healthy_effects(run: TrainingRun) -> tuple[Effect, ...]:
    """The twin without the fault runs to its end, and nothing happens."""
    return (
        *captured_effects(run),
        Effect("training is complete", run.completed, run.training_changed, 100),
        Effect("rule container is done", run.container_ended, run.judge_changed, 40),
        Effect("rules call it clean", run.all_clean, run.ended, 20),
        Effect("nobody was disturbed", run.nothing_done, run.ended, 20),
    )


def follow(
    run: TrainingRun,
    effects: tuple[Effect, ...],
    *,
    clock: Callable[[], float] = time.time,
    on_wait: Callable[[str], None] = lambda _: None,
) -> Iterator[Arrival]:
    """Yields each effect as it arrives, in the order they arrive in. Errors: `EffectMissing` when one does not.

    It waits for the account's journal, and looks at an effect's far end only when the journal has what may lead there.
    """
    missing, due, read = list(effects), list(effects), 0
    last_arrival = run.created_at
    while True:
        for effect in due:
            try:
                detail = effect.arrived()
            except CannotArrive as reason:
                raise EffectMissing(effect.name, str(reason), what_was_seen(run)) from reason
            if detail is not None:
                missing.remove(effect)
                last_arrival = clock()
                yield Arrival(effect.name, last_arrival - run.created_at, detail)
        if not missing:
            return
        limit = limit_seconds(missing[0].most_starts, start_seconds=run.stage.start_seconds)
        left = last_arrival + limit - clock()
        if left <= 0 and due == missing:  # all were looked at once more after the time was over
            why = f"not within {limit:.0f} s ({missing[0].most_starts:g} starts of Python with torch)"
            raise EffectMissing(missing[0].name, why, what_was_seen(run))
        on_wait(missing[0].name)
        entries = run.stage.account.hops.after(read, within_seconds=max(0.0, min(left, 1.0)))
        read += len(entries)
        if left <= 0 or any(map(run.message_came, entries)):
            run.stage.collect()
        due = [effect for effect in missing if left <= 0 or any(map(effect.journal_condition, entries))]


def _rights_of_training(bucket: str, key_arn: str) -> list[dict[str, Any]]:
    """As docs/deploy.md says, for runs anywhere in the bucket; and what any training job needs: its image, its log."""
    logs = f"arn:aws:logs:{REGION}:{ACCOUNT_ID}:log-group:/aws/sagemaker/TrainingJobs"
    pull = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    rights: list[tuple[list[str], list[str]]] = [
        (["s3:GetObject", "s3:PutObject"], [f"arn:aws:s3:::{bucket}/*"]),
        (["s3:ListBucket"], [f"arn:aws:s3:::{bucket}"]),
        (["kms:GenerateDataKey", "kms:Decrypt"], [key_arn]),
        (["ecr:GetAuthorizationToken"], ["*"]),
        (pull, [f"arn:aws:ecr:{REGION}:{ACCOUNT_ID}:repository/{IMAGE}"]),
        (["logs:CreateLogStream", "logs:PutLogEvents"], [f"{logs}:log-stream:*"]),
    ]
    return [{"Effect": "Allow", "Action": actions, "Resource": resources} for actions, resources in rights]


def _queue_arn(sqs: Any, url: str) -> str:
    arn: str = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return arn
