"""A drill: it plants a fault in a real training job and checks that each effect that a deployment promises arrives.

No message is taken on trust: the verdict is read in the run, the record in the table, the notification in a queue that
is subscribed for the drill, the metric and the alarm in CloudWatch, the stop in SageMaker.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from trackside.cloud.calls import Calls
from trackside.cloud.deployment import Deployment
from trackside.cloud.drill_training import FAULT_KEY
from trackside.cloud.run_table import RunTable
from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.deployment.metrics import issue_namespace
from trackside.contracts.deployment.stop_record import StopOutcome
from trackside.contracts.errors import (
    KeyNotFoundError,
    LocationNotFoundError,
    RunNotFoundError,
    StorageError,
    StorageUnavailableError,
    TracksideError,
)
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import (
    END_MARKER_KEY,
    RULE_OUTPUT,
    RULE_REQUEST_KEY,
    TENSORS,
    TRAINING_JOB_KEY,
    VERDICTS_KEY,
)
from trackside.contracts.verdict import Outcome, Verdict

PREFIX = "trackside-drill"  # for the job's name and its run: the drill's role may write nowhere else
RULE = "exploding-tensor"
ENTRY_POINT = ("python", "-m", "trackside.cloud.drill_training")
DEPLOY_AGAIN = "Deploy this version of Trackside."
OUTPUTS = {
    "RunBucketName": DEPLOY_AGAIN,
    "IssueTopicArn": DEPLOY_AGAIN,
    "RunTableName": DEPLOY_AGAIN,
    "EvaluatorImageUri": DEPLOY_AGAIN,
    "IssueAlarmName": DEPLOY_AGAIN,
    "DrillRoleArn": "Deploy with -c trackside:drills=true: it makes the role that the training job runs with.",
}
# Nothing more follows from a decision with one of these outcomes, and the job was not stopped.
_HELD = (
    StopOutcome.WOULD_STOP,
    StopOutcome.UNCONFIRMED,
    StopOutcome.VETOED,
    StopOutcome.COOLING_DOWN,
    StopOutcome.RECOVERED,
    StopOutcome.REFUSED,
)

_BY_ITS_LIMIT = (
    "MaxRuntimeExceeded",
    "MaxWaitTimeExceeded",
)  # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html


@dataclass(frozen=True)
class DrillSettings:
    """The settings of a drill.

    instance_type    of the training job
    pace_seconds     between two steps of the training
    timeout_seconds  for the whole drill, and the training job's own time limit
    poll_seconds     between two checks
    """

    instance_type: str = "ml.m5.large"
    pace_seconds: float = 0.5
    timeout_seconds: float = 1800.0
    poll_seconds: float = 3.0


@dataclass(frozen=True)
class Arrival:
    """One effect that arrived.

    effect  name of the effect
    at      its moment in seconds since the epoch: the recorded one, else that of the check
    detail  a clause for people
    """

    effect: str
    at: float
    detail: str


@dataclass(frozen=True)
class Missing:
    """One effect that did not arrive.

    effect  name of the effect
    why     the reason
    look    the place to look for the cause
    """

    effect: str
    why: str
    look: str


@dataclass(frozen=True)
class Report:
    """The result of a drill.

    job       the training job
    account   the account
    region    the region
    fault_at  moment of the fault in seconds since the epoch; None if no fault was planted
    arrivals  effects that arrived, in the order of their moments
    missing   effects that did not
    cleaned   parts that were removed
    left      parts that could not be removed, with reasons
    """

    job: str
    account: str
    region: str
    fault_at: float | None
    arrivals: tuple[Arrival, ...]
    missing: tuple[Missing, ...]
    cleaned: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True if every effect arrived."""
        return not self.missing


_WRITING = ("InProgress", "Stopping")  # states of jobs that may still write into the run
_LONGEST_END_SECONDS = 180.0  # SageMaker gives a stopped job 120 s


class EffectFailedError(TracksideError):
    """An effect that can no longer arrive; the message is the reason."""


@dataclass(frozen=True)
class Effect:
    """One effect to wait for.

    name   its name
    look   returns the arrival, or None so far; raises `EffectFailedError` if it can no longer arrive
    where  the place to look if it does not arrive
    """

    name: str
    look: Callable[[], Arrival | None]
    where: str


@dataclass
class Drill:
    """One drill. Call `begin`, then `follow`, then `clean_up`, which is safe at any time.

    calls        calls of AWS
    settings     settings of the drill
    clock        returns seconds since the epoch
    sleep        waits for seconds
    job          name of the training job; "": derived from the time
    environment  one of several deployments in the account and region; "": the one without
    """

    calls: Calls
    settings: DrillSettings
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    job: str = ""
    environment: str = ""  # one of several deployments in the account and region; "": the one without
    _queue_url: str = ""
    _subscription_arn: str = ""
    _messages: list[dict[str, Any]] = field(default_factory=list)
    _is_started: bool = False
    _has_settled: bool = False

    def __post_init__(self) -> None:
        deployment = Deployment(self.calls, environment=self.environment)
        self._bucket, self._topic, table, self._image, self._alarm, self._role = deployment.outputs(OUTPUTS)
        self.table = RunTable(table, client=self.calls.client)
        arn = self.calls.call("sts", "get_caller_identity")["Arn"]
        self.account, self.region = arn.split(":")[4], self.calls.client("sagemaker").meta.region_name
        moment = datetime.fromtimestamp(self.clock(), tz=timezone.utc).strftime("%Y%m%d-%H%M%S")
        self.job = self.job or f"{PREFIX}-{moment}"
        self._arn = f"{arn.partition(':iam:')[0].partition(':sts:')[0]}:sagemaker:{self.region}:{self.account}"
        self._arn += f":training-job/{self.job}"
        self._began = self.clock()

    @property
    def is_local(self) -> bool:
        """True if the account is a local one on this machine."""
        return "://127.0.0.1" in str(self.calls.client("sagemaker").meta.endpoint_url)

    def begin(self) -> None:
        """Subscribe a queue, then start the training job. Raises the errors of `Calls`."""
        self._began = self.clock()
        self._subscribe()
        rule = RuleConfiguration(RULE, actions=(Action.STOP_TRAINING, *DEFAULT_ACTIONS))
        self._put(RULE_REQUEST_KEY, RuleRequest((rule,)).to_json().encode())
        seconds = max(1, int(self.settings.timeout_seconds))
        self._is_started = True
        self.calls.call(
            "sagemaker",
            "create_training_job",
            TrainingJobName=self.job,
            AlgorithmSpecification={
                "TrainingImage": self._image,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": list(ENTRY_POINT),
                "ContainerArguments": [
                    *("--step-seconds", str(self.settings.pace_seconds)),
                    *("--most-seconds", str(seconds)),
                ],
            },
            RoleArn=self._role,
            OutputDataConfig={"S3OutputPath": f"{self._run_uri}/output"},
            ResourceConfig={"InstanceType": self.settings.instance_type, "InstanceCount": 1, "VolumeSizeInGB": 5},
            StoppingCondition={"MaxRuntimeInSeconds": seconds},
            Environment={"TRACKSIDE_RUN": self._run_uri},
            Tags=[{"Key": "trackside:run", "Value": self._run_uri}, {"Key": "project", "Value": "trackside-drill"}],
        )

    def follow(self, on_arrival: Callable[[Arrival], None], on_wait: Callable[[str], None]) -> Report:
        """Wait until every effect has arrived, one can no longer arrive, or the time is over. Return the report.

        Args:
            on_arrival: Called with each effect.
            on_wait: Called with the name of the first missing effect, before each pause.
        """
        waiting, arrivals, failed = list(self._effects()), [], []
        until = self._began + self.settings.timeout_seconds
        troubles: dict[str, str] = {}  # error of the last check of each effect
        while waiting:
            for effect in tuple(waiting):
                try:
                    arrival = effect.look()
                except EffectFailedError as error:
                    failed.append(Missing(effect.name, str(error), effect.where))
                    waiting.remove(effect)
                    continue
                except StorageUnavailableError as error:
                    troubles[effect.name] = f"; the last look failed: {error}"
                    continue
                troubles.pop(effect.name, None)
                if arrival:
                    waiting.remove(effect)
                    arrivals.append(arrival)
                    on_arrival(arrival)
            if not waiting or failed or self.clock() >= until:
                break
            on_wait(waiting[0].name)
            self.sleep(self.settings.poll_seconds)
        over = f"not within {self.settings.timeout_seconds:.0f} s" if not failed else "not seen before the drill ended"
        late = [Missing(effect.name, f"{over}{troubles.get(effect.name, '')}", effect.where) for effect in waiting]
        return self._report(arrivals, [*failed, *late])

    def clean_up(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Remove the drill's resources. Return the parts that were removed, and those that could not be.

        Each part is tried, even if others failed.
        """
        done: list[str] = []
        left: list[str] = []
        parts: tuple[tuple[str, Callable[[], str]], ...] = (
            (f"the training job {self.job}", self._stop_training),
            ("its processing jobs", self._stop_evaluators),
            ("the subscription", self._unsubscribe),
            ("the queue", self._delete_queue),
            (f"the run {self._run_uri}", self._delete_run),
        )
        for what, remove in parts:
            try:
                removed = remove()
            except StorageError as error:
                left.append(f"{what}: {error}")
            else:
                done += [removed] if removed else []
        return tuple(done), tuple(left)

    # Effects to wait for ---------------------------------------------------------------------------------------------

    def _effects(self) -> Iterator[Effect]:
        named = f"trackside aws verdicts {self.job}"
        yield Effect("training job runs", self._training_runs, "the training job in SageMaker, and its quota")
        yield Effect(
            "something judges it",
            self._is_judged,
            "the log of start_evaluation; a processing job trackside-…; is the image pushed?",
        )
        yield Effect("training goes wrong", self._goes_wrong, "the log of the training job in CloudWatch")
        yield Effect("a rule finds it", self._verdict, "the log of the processing job in CloudWatch")
        yield Effect("verdict is recorded", self._recorded, f"the queue of record_verdict, its log; {named}")
        yield Effect(
            "owners are notified", self._owners_notified, "the queue of notify_owner, its log and dead letters"
        )
        yield Effect("metric is published", self._metric, "the queue of notify_owner, its log and dead letters")
        yield Effect("alarm is raised", self._alarmed, f"the alarm {self._alarm}")
        yield Effect("stop is decided", self._decided, f"{named}: the condition that holds it back (docs/actions.md)")
        yield Effect("training is stopped", self._stopped, f"the log of stop_training; {named}")
        yield Effect("run is finished", self._finished, "the queue of start_evaluation, its log and dead letters")
        yield Effect("evaluator is done", self._evaluator_done, "the log of the processing job in CloudWatch")

    def _training_runs(self) -> Arrival | None:
        job = self._describe()
        if job["TrainingJobStatus"] == "Failed":
            raise EffectFailedError(f"the training job failed: {job.get('FailureReason', 'no reason given')}")
        started = job.get("TrainingStartTime")
        if not started or job["SecondaryStatus"] == "Starting":
            return None
        return Arrival("training job runs", started.timestamp(), f"one {self.settings.instance_type}")

    def _is_judged(self) -> Arrival | None:
        at = self._written_at(f"{RULE_OUTPUT}/{TRAINING_JOB_KEY}")
        if at is None:
            self._raise_if_evaluator_failed()
            return None
        names = self._evaluators()
        return Arrival("something judges it", at, "a processing job" if names else "a worker of the fleet")

    def _goes_wrong(self) -> Arrival | None:
        fault = self._fault()
        if fault is None:
            return None
        return Arrival("training goes wrong", fault["at"], f"learning rate x 1000, step {fault['step']}")

    def _verdict(self) -> Arrival | None:
        for name in self._keys(f"{RULE_OUTPUT}/"):
            if not name.endswith(VERDICTS_KEY):
                continue
            for line in self._get(name).decode().splitlines():
                verdict = Verdict.from_json(line)
                if verdict.outcome is Outcome.ISSUE_FOUND:
                    detail = f"{verdict.rule_id}, step {verdict.step}"
                    return Arrival("a rule finds it", verdict.detected_at, detail)
        self._raise_if_evaluator_failed()
        return None

    def _recorded(self) -> Arrival | None:
        for rule in self.table.rules(self._arn):
            if rule.first_found_at:
                return Arrival("verdict is recorded", self.clock(), "in the table of runs")
        return None

    def _owners_notified(self) -> Arrival | None:
        received = self.calls.call(
            "sqs", "receive_message", QueueUrl=self._queue_url, MaxNumberOfMessages=10, VisibilityTimeout=1
        )
        for message in received.get("Messages", ()):
            self.calls.call("sqs", "delete_message", QueueUrl=self._queue_url, ReceiptHandle=message["ReceiptHandle"])
            notification = json.loads(message["Body"])
            if self.job in str(notification.get("Message", "")) + str(notification.get("Subject", "")):
                self._messages.append(notification)
        if not self._messages:
            return None
        first = self._messages[0]
        return Arrival(
            "owners are notified",
            _moment(first.get("Timestamp"), self.clock()),
            f"{len(self._messages)} message by SNS",
        )

    def _metric(self) -> Arrival | None:
        now = self.clock()
        answer = self.calls.call(
            "cloudwatch",
            "get_metric_statistics",
            Namespace=issue_namespace(self.environment),
            MetricName="IssuesFound",
            Dimensions=[
                {"Name": "TrainingJobName", "Value": self.job},
                {"Name": "RuleName", "Value": RULE},
                {"Name": "Status", "Value": "IssuesFound"},
            ],
            StartTime=_utc(self._began - 300),
            EndTime=_utc(now + 300),
            Period=60,
            Statistics=["Sum"],
        )
        issues = sum(point["Sum"] for point in answer["Datapoints"])
        return Arrival("metric is published", now, f"Trackside/IssuesFound = {issues:.0f}") if issues else None

    def _alarmed(self) -> Arrival | None:
        alarms = self.calls.call("cloudwatch", "describe_alarms", AlarmNames=[self._alarm])["MetricAlarms"]
        if not alarms:
            raise EffectFailedError("there is no such alarm")
        if alarms[0]["StateValue"] != "ALARM" or self._fault() is None:
            return None
        changed = alarms[0]["StateUpdatedTimestamp"].timestamp()
        if changed < self._began:
            return Arrival("alarm is raised", self.clock(), "in ALARM, as it was before the drill")
        return Arrival("alarm is raised", changed, "IssuesFound is in ALARM")

    def _decided(self) -> Arrival | None:
        try:
            decisions = self.table.known(self._arn).decisions
        except RunNotFoundError:
            return None
        for one in decisions:
            if one.outcome in _HELD:
                raise EffectFailedError(f"{one.outcome.value}: {one.reason}")
        stops = [one for one in decisions if one.outcome in (StopOutcome.STOPPING, StopOutcome.STOPPED)]
        return Arrival("stop is decided", stops[0].at, "recorded, with its evidence") if stops else None

    def _stopped(self) -> Arrival | None:
        job = self._describe()
        status = job["TrainingJobStatus"]
        if status in ("Completed", "Failed"):
            raise EffectFailedError(f"the training job ended by itself, as {status}")
        if status != "Stopped":
            return None
        if job.get("SecondaryStatus") in _BY_ITS_LIMIT:
            raise EffectFailedError(f"the training job ended by its own limit, as {job['SecondaryStatus']}")
        ended = job.get("TrainingEndTime") or job["LastModifiedTime"]
        return Arrival("training is stopped", ended.timestamp(), "SageMaker reports Stopped")

    def _finished(self) -> Arrival | None:
        at = self._written_at(f"{TENSORS}/{END_MARKER_KEY}")
        return None if at is None else Arrival("run is finished", at, "its end is marked")

    def _evaluator_done(self) -> Arrival | None:
        if self._finished() is None:
            return None
        self._raise_if_evaluator_failed()
        jobs = [
            self.calls.call("sagemaker", "describe_processing_job", ProcessingJobName=name)
            for name in self._evaluators()
        ]
        if not jobs:
            return Arrival("evaluator is done", self.clock(), "the fleet judges on")
        if any(job["ProcessingJobStatus"] != "Completed" for job in jobs):
            return None
        ended = max(job["ProcessingEndTime"] for job in jobs).timestamp()
        return Arrival("evaluator is done", ended, "the last step is judged")

    # Small looks -----------------------------------------------------------------------------------------------------

    @property
    def _prefix(self) -> str:
        return f"{PREFIX}/{self.job}"

    @property
    def _run_uri(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def _describe(self) -> Mapping[str, Any]:
        job: Mapping[str, Any] = self.calls.call("sagemaker", "describe_training_job", TrainingJobName=self.job)
        return job

    def _fault(self) -> dict[str, Any] | None:
        try:
            fault: dict[str, Any] = json.loads(self._get(FAULT_KEY))
        except KeyNotFoundError:
            return None
        return fault

    def _evaluators(self) -> list[str]:
        listed = self.calls.call("sagemaker", "list_processing_jobs", NameContains=self.job, MaxResults=100)
        return [str(each["ProcessingJobName"]) for each in listed["ProcessingJobSummaries"]]

    def _raise_if_evaluator_failed(self) -> None:
        for name in self._evaluators():
            job = self.calls.call("sagemaker", "describe_processing_job", ProcessingJobName=name)
            if job["ProcessingJobStatus"] == "Failed":
                reason = job.get("ExitMessage") or job.get("FailureReason", "no reason given")
                raise EffectFailedError(f"the processing job {name} failed: {reason}")

    def _keys(self, below: str) -> list[str]:
        listed = self.calls.call("s3", "list_objects_v2", Bucket=self._bucket, Prefix=f"{self._prefix}/{below}")
        return [each["Key"].removeprefix(f"{self._prefix}/") for each in listed.get("Contents", ())]

    def _written_at(self, key: str) -> float | None:
        listed = self.calls.call("s3", "list_objects_v2", Bucket=self._bucket, Prefix=f"{self._prefix}/{key}")
        for each in listed.get("Contents", ()):
            if each["Key"] == f"{self._prefix}/{key}":
                return float(each["LastModified"].timestamp())
        return None

    def _get(self, key: str) -> bytes:
        if self._written_at(key) is None:
            raise KeyNotFoundError(f"{self._run_uri}/{key} is not there")
        body = self.calls.call("s3", "get_object", Bucket=self._bucket, Key=f"{self._prefix}/{key}")["Body"]
        content: bytes = body.read()
        return content

    def _put(self, key: str, content: bytes) -> None:
        self.calls.call("s3", "put_object", Bucket=self._bucket, Key=f"{self._prefix}/{key}", Body=content)

    def _report(self, arrivals: Sequence[Arrival], missing: Sequence[Missing]) -> Report:
        ordered = tuple(sorted(arrivals, key=lambda arrival: arrival.at))
        faults = [each.at for each in arrivals if each.effect == "training goes wrong"]
        return Report(self.job, self.account, self.region, faults[0] if faults else None, ordered, tuple(missing))

    # The subscription, and what is left behind ------------------------------------------------------------------------

    def _subscribe(self) -> None:
        sqs = self.calls
        self._queue_url = sqs.call("sqs", "create_queue", QueueName=self.job)["QueueUrl"]
        attributes = sqs.call("sqs", "get_queue_attributes", QueueUrl=self._queue_url, AttributeNames=["QueueArn"])
        queue_arn = attributes["Attributes"]["QueueArn"]
        policy = {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": "sns.amazonaws.com"},
                    "Action": "sqs:SendMessage",
                    "Resource": queue_arn,
                    "Condition": {"ArnEquals": {"aws:SourceArn": self._topic}},
                }
            ],
        }
        sqs.call("sqs", "set_queue_attributes", QueueUrl=self._queue_url, Attributes={"Policy": json.dumps(policy)})
        subscribed = sqs.call(
            "sns",
            "subscribe",
            TopicArn=self._topic,
            Protocol="sqs",
            Endpoint=queue_arn,
            ReturnSubscriptionArn=True,
        )
        self._subscription_arn = subscribed["SubscriptionArn"]

    def _unsubscribe(self) -> str:
        if self._subscription_arn:
            self.calls.call("sns", "unsubscribe", SubscriptionArn=self._subscription_arn)
            self._subscription_arn = ""
            return "subscription removed"
        return ""

    def _delete_queue(self) -> str:
        if self._queue_url:
            self.calls.call("sqs", "delete_queue", QueueUrl=self._queue_url)
            self._queue_url = ""
            return "queue deleted"
        return ""

    def _stop_training(self) -> str:
        try:
            if not self._is_started or self._describe()["TrainingJobStatus"] not in ("InProgress", "Stopping"):
                return ""
        except LocationNotFoundError:  # it was refused
            return ""
        with suppress(StorageError):  # it ended meanwhile
            self.calls.call("sagemaker", "stop_training_job", TrainingJobName=self.job)
        return "training job stopped"

    def _stop_evaluators(self) -> str:
        """Stop running evaluators. One with nothing left to judge ends by itself; after a failed drill one may not."""
        stopped = 0
        for name in self._evaluators() if self._is_started else ():
            job = self.calls.call("sagemaker", "describe_processing_job", ProcessingJobName=name)
            if job["ProcessingJobStatus"] == "InProgress":
                with suppress(StorageError):  # it ended meanwhile
                    self.calls.call("sagemaker", "stop_processing_job", ProcessingJobName=name)
                    stopped += 1
        return f"{stopped} processing job{'s' if stopped != 1 else ''} stopped" if stopped else ""

    def _await_writers(self) -> None:
        """Wait until nothing writes into the run any more, at most `_LONGEST_END_SECONDS`, and once."""
        until = self.clock() + _LONGEST_END_SECONDS
        while self._is_started and not self._has_settled and not self._writers_have_ended() and self.clock() < until:
            self.sleep(self.settings.poll_seconds)
        self._has_settled = True

    def _writers_have_ended(self) -> bool:
        """Return True once training and evaluators have ended, and start_evaluation has marked the end."""
        try:
            if self._describe()["TrainingJobStatus"] in _WRITING:
                return False
        except LocationNotFoundError:  # it was refused
            return True
        jobs = (
            self.calls.call("sagemaker", "describe_processing_job", ProcessingJobName=name)
            for name in self._evaluators()
        )
        return all(job["ProcessingJobStatus"] not in _WRITING for job in jobs) and bool(
            self._keys(f"{TENSORS}/{END_MARKER_KEY}")
        )

    def _delete_run(self) -> str:
        self._await_writers()
        deleted = 0
        while keys := self._keys(""):
            for key in keys:
                self.calls.call("s3", "delete_object", Bucket=self._bucket, Key=f"{self._prefix}/{key}")
            deleted += len(keys)
        return f"run of {deleted} objects deleted" if deleted else ""


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)


def _moment(text: object, default: float) -> float:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return default
